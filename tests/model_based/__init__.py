"""A short reference model of a queue manager, and the engine held to it."""
