"""Tests of the columns: what is made of all rows at once is measured by what is made of each alone."""
