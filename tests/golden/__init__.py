"""The worked examples of the papers."""
