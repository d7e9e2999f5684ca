"""The Python API. `embedded` runs a queue manager inside the program that uses it: `tiercel.open`."""
