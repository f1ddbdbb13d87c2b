"""Top-k/w (Pripužić et al.): strict, relaxed and probabilistic k-skybands, one band per query."""
