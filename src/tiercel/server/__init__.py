"""The daemon: the only code with sockets, tasks and clocks."""
