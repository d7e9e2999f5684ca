"""Two daemons as real processes, killed and cut off from each other while they work."""
