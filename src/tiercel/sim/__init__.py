"""A simulated world: real engines and protocol machines over a disk, a network and a clock made of one seed.

`run(seed)` in `simulation` is the door; `python -m tiercel.sim --seed N --trace` replays a seed and tells
everything that happened in it. Nothing in the product imports this package.
"""
