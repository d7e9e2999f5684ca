"""The network with one queue manager and one peer of the tests of the binary protocol."""

from binary.conftest import hand, here, net

__all__ = ["hand", "here", "net"]
