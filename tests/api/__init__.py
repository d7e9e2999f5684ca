"""Tests of `tiercel.api`, with a running daemon."""
