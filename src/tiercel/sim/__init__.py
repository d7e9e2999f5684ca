"""A simulated world: real engines and protocol machines on a disk, a network and a clock driven by one seed.

The entry point is `run(seed)` in `simulation`; `python -m tiercel.sim --seed N --trace` replays a seed and
prints every event. Nothing in the product imports this package.
"""
