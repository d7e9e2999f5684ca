"""The systemd service protocol: sd_notify(3) and sd_listen_fds(3)."""

import os
import socket
from typing import Final

_FIRST_DESCRIPTOR: Final = 3


def notify(*lines: str) -> bool:
    """Report a state such as `READY=1`; False if systemd does not listen."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):  # a name in the abstract namespace
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.connect(address)
            sender.sendall("\n".join(lines).encode())
    except OSError:
        return False  # not fatal
    return True


def watchdog_seconds() -> float | None:
    """The watchdog interval, or None if the watchdog is off."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if microseconds.isdigit() and int(microseconds) else None


def inherited_sockets() -> list[socket.socket]:
    """The listening sockets passed by systemd. Clears the variables, so that children do not take them."""
    ours = os.environ.pop("LISTEN_PID", "") == str(os.getpid())
    count = os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if not ours or not count.isdigit():
        return []
    found = []
    for descriptor in range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + int(count)):
        os.set_inheritable(descriptor, False)
        found.append(socket.socket(fileno=descriptor))
    return found
