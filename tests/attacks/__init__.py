"""Attacks on real daemons: what a stranger tries, and what the daemon kept or did."""
