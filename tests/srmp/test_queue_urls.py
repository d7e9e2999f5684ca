"""URLs of queues: what strangers may name, and what is made of it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tiercel.model.errors import IllegalFormatNameError
from tiercel.model.format_name import DirectFormatName
from tiercel.srmp.queue_urls import Endpoint, endpoint_of, host_of, request_target, write_url

HOSTS = st.text(st.one_of(st.characters(), st.sampled_from("aB.-_:[]@%?#\\ \u2100\u2a74")), max_size=12)


@example("h", "/msmq/q?\ud800")
@example("a\u2100b", "/msmq/q")
@example("[::1%25eth0]:0", "/msmq/q")
@given(HOSTS, st.one_of(st.just("/msmq/private$/q"), st.text(max_size=9).map(lambda text: f"/msmq/q{text}")))
def test_every_name_can_be_dialled_and_written(host: str, path: str) -> None:
    """Else it would stop a queue manager that has a message for it."""
    try:
        url = write_url(DirectFormatName.from_wire(f"http://{host}{path}"))
    except IllegalFormatNameError:
        return
    endpoint = endpoint_of(url)
    assert endpoint.host.isascii()
    assert 0 < endpoint.port <= 65_535
    assert host_of(url).isascii()
    assert request_target(url).isascii()


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://h/msmq/q", Endpoint("h", 80, False)),
        ("HTTPS://H", Endpoint("h", 443, True)),
        ("http://h:8080?x", Endpoint("h", 8080, False)),
        ("http://u:p@h:0/", Endpoint("h", 80, False)),
        ("https://[::1]:8443/msmq/q", Endpoint("::1", 8443, True)),
        ("http://B\u00fcro.example/", Endpoint("xn--bro-hoa.example", 80, False)),
    ],
)
def test_endpoints(url: str, endpoint: Endpoint) -> None:
    assert endpoint_of(url) == endpoint


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h",
        "ftp://h/",
        "http://",
        "http:///q",
        "http://:80/",
        "http://h:65536/",
        "http://h:x/",
        "http://[::1/",
    ],
)
def test_urls_without_an_endpoint(url: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        endpoint_of(url)
