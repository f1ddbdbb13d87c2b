"""What comes in and is held: batches with times and ids, keys that sort as ids do, the store of kept events."""
