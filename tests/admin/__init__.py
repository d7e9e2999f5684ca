"""Tests of `tiercel.admin`."""
