"""What executors do with a micro-batch: one reducer for each kind of query; only what may matter comes back."""
