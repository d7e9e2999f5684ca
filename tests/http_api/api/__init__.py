"""Tests of `tiercel.http.api`, with a daemon that runs."""
