"""Tests of `tiercel.data`, with a running daemon and its data process."""
