"""Tests of the codec. `packets` builds bytes by hand, `strategies` draws valid values of every structure."""
