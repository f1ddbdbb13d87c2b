"""Queries over HTTP: register them, watch their answers change. Only this package knows a web server."""
