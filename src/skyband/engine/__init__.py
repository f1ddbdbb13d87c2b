"""From events to answers: events enter by `Monitor.push`; one module for each kind of query."""
