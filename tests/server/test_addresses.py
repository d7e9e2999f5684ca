"""The names and addresses by which this computer knows itself."""

import pytest

from tiercel.server.addresses import own_names, source_address
from tiercel.server.config import parse


@pytest.mark.conformance("SRMP-175")
def test_the_address_of_the_http_listener_is_ours_while_it_listens() -> None:
    listener = '[srmp]\nenabled = true\nhost = "192.0.2.7"\n'
    assert "192.0.2.7" in own_names(parse(listener))
    assert "192.0.2.7" not in own_names(parse(listener.replace("true", "false")))


def test_a_listener_everywhere_has_every_address() -> None:
    names = own_names(parse('[srmp]\nenabled = true\nhost = "0.0.0.0"\n'))
    assert {"127.0.0.1", "::1"} <= set(names)


def test_from_loopback_to_elsewhere_does_not_bind() -> None:
    assert source_address("127.0.0.1", "192.0.2.1") is None
    assert source_address("127.0.0.1", "127.0.0.9") == ("127.0.0.1", 0)
    assert source_address("127.0.0.1", "::1") is None
    assert source_address("localhost", "127.0.0.1") is None
