"""What a crash leaves: everything that was acknowledged exactly once, and of the rest nothing."""
