"""Queries over HTTP: register them, watch their answers move. Nothing else in Skyband knows of a network server."""
