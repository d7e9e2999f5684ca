"""Addresses of this computer that no other process uses, for tests that listen where they say."""

import os


def own_address(which: int = 0) -> str:
    """Of this process alone, and there are 16 of them: every address that begins with 127 is this computer.

    A port that was free a moment ago may be somebody's on 127.0.0.1; here it is still free.
    """
    assert which < 16
    number = 16 * os.getpid() + which
    return f"127.{64 + (number >> 16) % 128}.{number >> 8 & 255}.{number & 255}"
