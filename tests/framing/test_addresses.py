"""net.msmq addresses: [MS-NMFMB] 3.1.1.2 and 3.1.7."""

import pytest

from tiercel.framing.addresses import (
    Address,
    address_of,
    direct_format_name,
    directory_path,
    http_format_name,
    is_same_queue,
)
from tiercel.model.errors import IllegalFormatNameError
from tiercel.model.format_name import FormatName


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("net.msmq://localhost/private/q1", r"DIRECT=OS:.\private$\q1"),
        ("net.msmq://LocalHost/PRIVATE/q1", r"DIRECT=OS:.\private$\q1"),
        ("net.msmq://srv/q1", r"DIRECT=OS:srv\q1"),
        ("NET.MSMQ://srv/q1/", r"DIRECT=OS:srv\q1"),
        ("net.msmq://192.0.2.7/q1", r"DIRECT=TCP:192.0.2.7\q1"),
        ("net.msmq://192.0.2.7/private/q1", r"DIRECT=TCP:192.0.2.7\private$\q1"),
        ("net.msmq://[2001:db8::1]/private/q1", r"DIRECT=TCP:2001:db8::1\private$\q1"),
        ("net.msmq://srv/private/q1", r"DIRECT=OS:srv\private$\q1"),
        ("net.msmq://srv/private/q1;retry", r"DIRECT=OS:srv\private$\q1;retry"),
        ("net.msmq://srv/private/my%20queue%C3%BC", r"DIRECT=OS:srv\private$\my queueü"),
    ],
)
@pytest.mark.conformance("NMFMB-030", "NMFMB-032", "NMFMB-033", "NMFMB-034", "NMFMB-035")
def test_direct_names(address: str, name: str) -> None:
    found = direct_format_name(Address.parse(address))
    assert found == FormatName.parse(name)
    assert str(found) == name or "LocalHost" in address


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("net.msmq:q", "the computer is missing"),
        ("http://host/q", "the scheme must be net.msmq, not 'http'"),
        ("net.tcp://host/q", "the scheme must be net.msmq, not 'net.tcp'"),
        ("net.msmq:///q", "the computer is missing"),
        ("net.msmq://host", "the queue is missing"),
        ("net.msmq://host/private", "the queue is missing"),
        ("net.msmq://host/private/", "the queue is missing"),
        ("net.msmq://host/;retry", "the queue is missing"),
        ("net.msmq://host/private$/q", "private$ is not allowed"),
        ("net.msmq://host:port/q", "Port"),
    ],
)
@pytest.mark.conformance("NMFMB-030")
def test_refused(address: str, said: str) -> None:
    with pytest.raises(IllegalFormatNameError) as caught:
        Address.parse(address)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["net.msmq://u@h/q", "net.msmq://u:p@h/q", "net.msmq://h/q?x=1", "net.msmq://h/q#f", "net.msmq://h/q?"],
)
@pytest.mark.conformance("NMFMB-031")
def test_no_user_query_or_fragment(address: str) -> None:
    with pytest.raises(IllegalFormatNameError, match="not allowed"):
        Address.parse(address)


def test_a_port_is_for_http_only() -> None:
    with pytest.raises(IllegalFormatNameError, match="a port is not allowed here"):
        direct_format_name(Address.parse("net.msmq://srv:8080/q"))


@pytest.mark.parametrize(
    ("address", "secure", "name"),
    [
        ("net.msmq://srv:8080/private/q1", False, "DIRECT=http://srv:8080/msmq/private$/q1"),
        ("net.msmq://srv/private/q1", False, "DIRECT=http://srv/msmq/private$/q1"),
        ("net.msmq://srv:8443/q1", True, "DIRECT=https://srv:8443/msmq/q1"),
        ("net.msmq://[::1]:81/q1", False, "DIRECT=http://[::1]:81/msmq/q1"),
    ],
)
@pytest.mark.conformance("NMFMB-038")
def test_http_names(address: str, secure: bool, name: str) -> None:
    found = http_format_name(Address.parse(address), secure=secure)
    assert found == FormatName.parse(name)
    assert f"DIRECT={found.wire_name}" == name


def test_a_private_queue_is_not_in_the_directory() -> None:
    assert str(directory_path(Address.parse("net.msmq://localhost/q"), "pc")) == r"pc\q"
    with pytest.raises(IllegalFormatNameError, match="not in the directory"):
        directory_path(Address.parse("net.msmq://srv/private/q"), "pc")


@pytest.mark.parametrize(
    "address",
    [
        "net.msmq://localhost/private/q1",
        "net.msmq://srv/q1",
        "net.msmq://192.0.2.7/private/q1;retry",
        "net.msmq://srv/private/my%20queue",
    ],
)
def test_and_back(address: str) -> None:
    assert str(address_of(direct_format_name(Address.parse(address)))) == address


def test_http_names_and_back() -> None:
    address = Address.parse("net.msmq://srv:8080/private/q1")
    assert address_of(http_format_name(address, secure=False)) == address


@pytest.mark.parametrize("name", ["PUBLIC=00112233-4455-6677-8899-aabbccddeeff", r"DIRECT=OS:.\q;JOURNAL"])
def test_names_without_an_address(name: str) -> None:
    with pytest.raises(IllegalFormatNameError, match=r"no net\.msmq address"):
        address_of(FormatName.parse(name))


@pytest.mark.parametrize(
    ("via", "same"),
    [
        ("net.msmq://localhost/private/orders", True),
        ("net.msmq://other/Private/Orders/", True),
        ("net.msmq://srv/private/orders;retry", True),
        ("net.msmq://srv/orders", False),
        ("net.msmq://srv/private/other", False),
        ("net.tcp://srv/private/orders", False),
        ("", False),
    ],
)
@pytest.mark.conformance("NMFMB-027")
def test_a_via_is_compared_by_its_path(via: str, same: bool) -> None:
    """NMFMB trap 18."""
    assert is_same_queue(via, Address.parse("net.msmq://srv/private/orders")) is same
