"""What one may ask: a query, its join with remote data, a subscription with a score of its own."""
