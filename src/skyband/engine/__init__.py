"""From events to answers: the monitor, and one module for each kind of query that it serves."""
