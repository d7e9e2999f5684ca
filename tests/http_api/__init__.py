"""Tests of `tiercel.http`; the folder has another name, because `http` is one of the standard library's."""
