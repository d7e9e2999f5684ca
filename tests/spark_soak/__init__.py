"""Streaming jobs as real processes, killed at every step of a micro-batch: messages in = rows out."""
