"""Tests of the stores. Both are held to the same behaviour; the faults of disks are met for real where they can be."""
