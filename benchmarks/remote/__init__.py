"""What the experiments on remote data have in common."""
