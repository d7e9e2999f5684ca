"""Runs a command in the network namespace that was just made for it, with its loopback on."""

import fcntl
import os
import socket
import struct
import sys


def switch_loopback_on() -> None:
    flags = struct.pack("16sH14x", b"lo", 0x41)  # IFF_UP | IFF_RUNNING
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, flags)  # SIOCSIFFLAGS


if __name__ == "__main__":
    switch_loopback_on()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  # in the network that was just made
