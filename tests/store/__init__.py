"""Tests of the stores. Both are held to the same behaviour; faults of the disk are real where they can be."""
