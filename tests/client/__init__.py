"""The Python API as an application sees it: real queue managers on real stores, nothing replaced."""
