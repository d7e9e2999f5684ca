"""A simulated world: real engines and protocols over a disk, a network and a clock made of one seed."""
