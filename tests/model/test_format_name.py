import copy
import pickle
from ipaddress import IPv4Address
from urllib.parse import unquote
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tiercel.model.errors import IllegalFormatNameError
from tiercel.model.format_name import (
    MAX_ELEMENTS,
    ConnectorFormatName,
    DirectFormatName,
    DirectProtocol,
    DistributionListFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    MultipleElementFormatName,
    PrivateFormatName,
    PublicFormatName,
    UnreadableFormatName,
)
from tiercel.model.path_name import PathKind, PathName, SystemQueue

PUBLIC, PRIVATE, SYSTEM = PathKind.PUBLIC, PathKind.PRIVATE, PathKind.SYSTEM
G = "0a1b2c3d-0000-4000-8000-00000000abcd"
GUID = UUID(G)


def direct(
    protocol: str,
    computer: str,
    kind: PathKind,
    queue: str,
    *,
    subqueue: str | None = None,
    journal: bool = False,
) -> DirectFormatName:
    return DirectFormatName(DirectProtocol(protocol), PathName(computer, kind, queue, subqueue, journal))


EXAMPLES = [
    (f"PUBLIC={G}", PublicFormatName(GUID), f"PUBLIC={G}"),
    (f"public={G.upper()};Journal", PublicFormatName(GUID, journal=True), f"PUBLIC={G};JOURNAL"),
    (rf"PRIVATE={G}\4", PrivateFormatName(GUID, 4), rf"PRIVATE={G}\00000004"),
    (rf"private={G}\0000000A", PrivateFormatName(GUID, 10), rf"PRIVATE={G}\0000000a"),
    (
        rf"PRIVATE={G}\ffffffff;journal",
        PrivateFormatName(GUID, 2**32 - 1, journal=True),
        rf"PRIVATE={G}\ffffffff;JOURNAL",
    ),
    (r"DIRECT=OS:a04bm02\q", direct("OS", "a04bm02", PUBLIC, "q"), r"DIRECT=OS:a04bm02\q"),
    (r"direct=os:.\PRIVATE$\Q", direct("OS", ".", PRIVATE, "Q"), r"DIRECT=OS:.\private$\Q"),
    (r"DIRECT=OS:h\q;Retry", direct("OS", "h", PUBLIC, "q", subqueue="Retry"), r"DIRECT=OS:h\q;Retry"),
    (r"DIRECT=OS:h\q;journal", direct("OS", "h", PUBLIC, "q", journal=True), r"DIRECT=OS:h\q;JOURNAL"),
    (
        r"DIRECT=OS:h\private$\q;JOURNAL",
        direct("OS", "h", PRIVATE, "q", journal=True),
        r"DIRECT=OS:h\private$\q;JOURNAL",
    ),
    (r"DIRECT=OS:h\SYSTEM$;JOURNAL", direct("OS", "h", SYSTEM, "JOURNAL"), r"DIRECT=OS:h\system$;JOURNAL"),
    (
        r"DIRECT=OS:h\SYSTEM$;DEADLETTER",
        direct("OS", "h", SYSTEM, "DEADLETTER"),
        r"DIRECT=OS:h\system$;DEADLETTER",
    ),
    (r"DIRECT=OS:h\SYSTEM$;DEADXACT", direct("OS", "h", SYSTEM, "DEADXACT"), r"DIRECT=OS:h\system$;DEADXACT"),
    (r"DIRECT=TCP:192.0.2.7\q", direct("TCP", "192.0.2.7", PUBLIC, "q"), r"DIRECT=TCP:192.0.2.7\q"),
    (
        r"DIRECT=TCP:2001:db8::9\PRIVATE$\order_queue$",
        direct("TCP", "2001:db8::9", PRIVATE, "order_queue$"),
        r"DIRECT=TCP:2001:db8::9\private$\order_queue$",
    ),
    (r"DIRECT=TCP:linux-host\q", direct("TCP", "linux-host", PUBLIC, "q"), r"DIRECT=TCP:linux-host\q"),
    (r"DIRECT=TCP:[::1]\q", direct("TCP", "::1", PUBLIC, "q"), r"DIRECT=TCP:::1\q"),
    (
        r"DIRECT=IPX:00000012:00a0234f7500\q",
        direct("IPX", "00000012:00a0234f7500", PUBLIC, "q"),
        r"DIRECT=IPX:00000012:00a0234f7500\q",
    ),
    (
        r"DIRECT=SPX:00000012.00a0234f7500\PRIVATE$\order_queue$",
        direct("SPX", "00000012.00a0234f7500", PRIVATE, "order_queue$"),
        r"DIRECT=SPX:00000012.00a0234f7500\private$\order_queue$",
    ),
    (
        "DIRECT=http://192.168.10.100/msmq/private$/queuejumper",
        direct("HTTP", "192.168.10.100", PRIVATE, "queuejumper"),
        "DIRECT=HTTP://192.168.10.100/msmq/private$/queuejumper",
    ),
    (
        r"DIRECT=HTTPS://srv:8443/MSMQ\PRIVATE$\q;retry",
        direct("HTTPS", "srv:8443", PRIVATE, "q", subqueue="retry"),
        "DIRECT=HTTPS://srv:8443/msmq/private$/q;retry",
    ),
    (
        "DIRECT=HTTP://[2001:db8::9]:80/msmq/q",
        direct("HTTP", "[2001:db8::9]:80", PUBLIC, "q"),
        "DIRECT=HTTP://[2001:db8::9]:80/msmq/q",
    ),
    (
        "DIRECT=HTTP://srv/msmq/private%24/my%20q?a=b/c",
        direct("HTTP", "srv", PRIVATE, "my q"),
        "DIRECT=HTTP://srv/msmq/private$/my q",
    ),
    (
        "DIRECT=HTTP://srv/msmq/system$;deadletter",
        direct("HTTP", "srv", SYSTEM, "DEADLETTER"),
        "DIRECT=HTTP://srv/msmq/system$;deadletter",
    ),
    (f"machine={G};journal", MachineFormatName(GUID, SystemQueue.JOURNAL), f"MACHINE={G};JOURNAL"),
    (f"MACHINE={G};DEADLETTER", MachineFormatName(GUID, SystemQueue.DEADLETTER), f"MACHINE={G};DEADLETTER"),
    (f"MACHINE={G};DeadXact", MachineFormatName(GUID, SystemQueue.DEADXACT), f"MACHINE={G};DEADXACT"),
    (f"CONNECTOR={G}", ConnectorFormatName(GUID), f"CONNECTOR={G}"),
    (f"connector={G};xactonly", ConnectorFormatName(GUID, transactional=True), f"CONNECTOR={G};XACTONLY"),
    (f"DL={G}", DistributionListFormatName(GUID), f"DL={G}"),
    (
        f"dl={G}@Corp.Example",
        DistributionListFormatName(GUID, "corp.example"),
        f"DL={G}@Corp.Example",
    ),
    (
        "MULTICAST=234.1.1.1:8001",
        MulticastFormatName(IPv4Address("234.1.1.1"), 8001),
        "MULTICAST=234.1.1.1:8001",
    ),
    ("multicast=224.0.0.0:0", MulticastFormatName(IPv4Address("224.0.0.0"), 0), "MULTICAST=224.0.0.0:0"),
    (
        "MULTICAST=239.255.255.255:65535",
        MulticastFormatName(IPv4Address("239.255.255.255"), 65535),
        "MULTICAST=239.255.255.255:65535",
    ),
    ("MULTICAST=234.1.1.1:20", MulticastFormatName(IPv4Address("234.1.1.1"), 20), "MULTICAST=234.1.1.1:20"),
    (
        rf"DIRECT=OS:h\q,public={G},DL={G}",
        MultipleElementFormatName(
            (direct("OS", "h", PUBLIC, "q"), PublicFormatName(GUID), DistributionListFormatName(GUID))
        ),
        rf"DIRECT=OS:h\q,PUBLIC={G},DL={G}",
    ),
]
ILLEGAL = [
    ("", "does not begin with a keyword"),
    ("DIRECT", "does not begin with a keyword"),
    (r"OS:h\q", "does not begin with a keyword"),
    (rf"h\private$\q={G}", "does not begin with a keyword"),
    ("PUBLIC=", "= is invalid"),
    (f"PUBLIC={{{G}}}", "= is invalid"),
    (f"PUBLIC={G.replace('-', '')}", "= is invalid"),
    (f"PUBLIC={G};DEADLETTER", "= is invalid"),
    (f"PUBLIC={G}\n", "= is invalid"),
    (f" PUBLIC={G}", "does not begin with a keyword"),
    (f"PRIVATE={G}", "= is invalid"),
    (f"PRIVATE={G}\\", "= is invalid"),
    (rf"PRIVATE={G}\123456789", "= is invalid"),
    (rf"PRIVATE={G}\0x4", "= is invalid"),
    (rf"PRIVATE={G}\4;DEADXACT", "= is invalid"),
    (f"MACHINE={G}", "= is invalid"),
    (f"MACHINE={G};XACTONLY", "= is invalid"),
    (f"CONNECTOR={G};JOURNAL", "= is invalid"),
    (f"DL={G};JOURNAL", "= is invalid"),
    (f"DL={G}@", "= is invalid"),
    (f"DL={G}@a b", "domain holds the character ' '"),
    (f"DL={G}@{'d' * 256}", "domain is too long (present: 256, limit: 255)"),
    ("MULTICAST=223.255.255.255:1", "not a multicast address"),
    ("MULTICAST=240.0.0.0:1", "not a multicast address"),
    ("MULTICAST=234.1.1.1", "= is invalid"),
    ("MULTICAST=234.1.1.1:", "= is invalid"),
    ("MULTICAST=234.1.1.1:65536", "port is out of range (present: 65536, limit: 65535)"),
    ("MULTICAST=234.1.1.1:080", "= is invalid"),
    ("MULTICAST=234.1.1.256:80", "is not an IPv4 address"),
    ("MULTICAST=234.01.1.1:80", "is not an IPv4 address"),
    ("MULTICAST=[ff02::1]:80", "= is invalid"),
    (r"DIRECT=h\q", "its protocol is unknown"),
    (r"DIRECT=UDP:h\q", "its protocol is unknown"),
    (r"DIRECT=OS:\q", "computer name is empty"),
    ("DIRECT=OS:h", "queue name is empty"),
    ("DIRECT=OS:h\\", "queue name is empty"),
    ("DIRECT=OS:h\\private$\\", "queue name is empty"),
    (r"DIRECT=OS:h/private$/q", "computer name holds the character '/'"),
    (r"DIRECT=OS:h\a\b", r"queue name holds the character '\\'"),
    (r"DIRECT=OS:h\q\Journal$", r"queue name holds the character '\\'"),
    (r"DIRECT=OS:h\Journal$", "Journal$ is not a queue name"),
    (r"DIRECT=OS:h\q;", "subqueue name is empty"),
    (r"DIRECT=OS:h\q;a;JOURNAL", "subqueue name holds the character ';'"),
    (r"DIRECT=OS:h\SYSTEM$;ORDERS", "no system queue ORDERS"),
    ("DIRECT=OS:h\\" + "q" * 125, "queue name is too long (present: 125, limit: 124)"),
    ("DIRECT=OS:h\\q\x00", r"queue name holds the character '\x00'"),
    (r"DIRECT=TCP:10.0.0.1:1801\q", "is not a valid TCP address"),
    (r"DIRECT=TCP:[]\q", "computer name is empty"),
    (r"DIRECT=SPX:12.34\q", "is not a valid SPX address"),
    (r"DIRECT=HTTP:h\q", "not the URL of a queue"),
    ("DIRECT=HTTP://h/q", "not the URL of a queue"),
    ("DIRECT=HTTP://h/msmq", "not the URL of a queue"),
    ("DIRECT=HTTP://h/msmq/", "queue name is empty"),
    ("DIRECT=HTTP:///msmq/q", "computer name is empty"),
    ("DIRECT=HTTP://h/msmq/a/b", "not the URL of a queue"),
    ("DIRECT=HTTP://h:65536/msmq/q", "is not a valid HTTP address"),
    ("DIRECT=HTTP://user@h/msmq/q", "is not a valid HTTP address"),
    ("DIRECT=HTTP://[h]/msmq/q", "is not a valid HTTP address"),
    ("DIRECT=HTTP://2001:db8::9/msmq/q", "is not a valid HTTP address"),
    (f"PUBLIC={G},", "does not begin with a keyword"),
    (f"PUBLIC={G},,PUBLIC={G}", "does not begin with a keyword"),
    (f"PUBLIC={G}, PUBLIC={G}", "does not begin with a keyword"),
    (f"PUBLIC={G},MACHINE={G};JOURNAL", "cannot be an element"),
    (f"PUBLIC={G},PUBLIC={G};JOURNAL", "cannot be an element"),
    (rf"PRIVATE={G}\4;JOURNAL,PUBLIC={G}", "cannot be an element"),
    (rf"PUBLIC={G},DIRECT=OS:h\q;JOURNAL", "cannot be an element"),
    (rf"PUBLIC={G},DIRECT=OS:h\SYSTEM$;DEADLETTER", "cannot be an element"),
    ("," * MAX_ELEMENTS, "too many or too few elements (present: 1025, limit: 2 to 1024)"),
    ("," * 4_000_000, "too many or too few elements"),
    ("=" * 4_000_000, "does not begin with a keyword"),
    ("PUBLIC=" + "-" * 4_000_000, "= is invalid"),
    (f"DL={G}@" + "d" * 4_000_000, "domain is too long"),
    ("DIRECT=" + ":" * 4_000_000, "its protocol is unknown"),
    ("DIRECT=TCP:" + ":" * 4_000_000 + r"\q", "computer name is too long"),
    ("DIRECT=OS:h\\" + "\\;" * 2_000_000, r"queue name holds the character '\\'"),
    ("DIRECT=HTTP:" + "//msmq" * 700_000, "not the URL of a queue"),
]

guids = st.uuids()
flags = st.booleans()
computers = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters='\\/;,"'), min_size=1, max_size=40
)
queues = st.text(
    st.characters(exclude_categories=["C"], exclude_characters='\\/;+,"$'), min_size=1, max_size=40
).filter(str.strip)
addresses = {
    DirectProtocol.OS: computers,
    DirectProtocol.TCP: st.ip_addresses().map(str),
    DirectProtocol.HTTP: st.from_regex(
        r"[a-z][a-z0-9.-]{0,40}(:[0-9]{0,4})?|\[::[0-9a-f]{1,4}\]", fullmatch=True
    ),
    DirectProtocol.HTTPS: st.ip_addresses(v=4).map(str),
    DirectProtocol.IPX: st.from_regex(r"[0-9a-f]{8}:[0-9A-F]{12}", fullmatch=True),
    DirectProtocol.SPX: st.from_regex(r"[0-9A-F]{8}\.[0-9a-f]{12}", fullmatch=True),
}


@st.composite
def direct_names(draw: st.DrawFn) -> DirectFormatName:
    protocol = draw(st.sampled_from(DirectProtocol))
    computer, kind = draw(addresses[protocol]), draw(st.sampled_from(PathKind))
    if kind is SYSTEM:
        return DirectFormatName(protocol, PathName(computer, kind, draw(st.sampled_from(SystemQueue))))
    subqueue, journal = draw(st.sampled_from([(None, False), ("Retry", False), (None, True)]))
    names = queues.filter(lambda name: "?" not in name and unquote(name) == name)
    names = names if protocol.is_http else queues
    return DirectFormatName(protocol, PathName(computer, kind, draw(names), subqueue, journal))


single_names: st.SearchStrategy[FormatName] = st.one_of(
    direct_names(),
    st.builds(PublicFormatName, guids, flags),
    st.builds(PrivateFormatName, guids, st.integers(0, 2**32 - 1), flags),
    st.builds(MachineFormatName, guids, st.sampled_from(SystemQueue)),
    st.builds(ConnectorFormatName, guids, flags),
    st.builds(DistributionListFormatName, guids, st.just("") | computers),
    st.builds(MulticastFormatName, st.ip_addresses(network="224.0.0.0/4"), st.integers(0, 65535)),
)
lists = st.lists(single_names.filter(lambda name: not name.is_read_only), min_size=2, max_size=5)
format_names = single_names | lists.map(lambda names: MultipleElementFormatName(tuple(names)))


@st.composite
def mutated_names(draw: st.DrawFn) -> str:
    text = str(draw(format_names))
    start, length = draw(st.integers(0, len(text))), draw(st.integers(0, 4))
    inserted = draw(
        st.text("\\;=,:/@[]$ \n\x00\u017fAa0", max_size=3) | st.sampled_from(["JOURNAL", "private$\\"])
    )
    return text[:start] + inserted + text[start + length :]


@pytest.mark.parametrize(("text", "name", "printed"), EXAMPLES)
def test_example(text: str, name: FormatName, printed: str) -> None:
    parsed = FormatName.parse(text)
    assert parsed == name
    assert type(parsed) is type(name)
    assert str(parsed) == printed
    assert FormatName.parse(printed) == name


@pytest.mark.parametrize(("text", "problem"), ILLEGAL, ids=range(len(ILLEGAL)))
def test_illegal(text: str, problem: str) -> None:
    with pytest.raises(IllegalFormatNameError) as caught:
        FormatName.parse(text)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()


def test_an_error_names_object_limit_present_value_and_fix() -> None:
    with pytest.raises(IllegalFormatNameError) as caught:
        FormatName.parse(r"DIRECT=OS:h\q;" + "s" * 33)
    assert str(caught.value) == (
        rf"format name DIRECT=OS:h\q;{'s' * 33}: the subqueue name is too long (present: 33, limit: 32). "
        "Use at most 32 characters. [MQ_ERROR_ILLEGAL_FORMATNAME 0xC00E001E]"
    )


@given(format_names)
def test_every_name_is_read_back_from_its_text_in_any_case(name: FormatName) -> None:
    for text in (str(name), str(name).casefold()):
        assert FormatName.parse(text) == name
        assert hash(FormatName.parse(text)) == hash(name)


@given(st.text() | mutated_names())
@example("DIRECT=O\u017f:h\\\u017fystem$;JOURNAL")
@example("DIRECT=HTTP://h/m\u017fmq/q")
def test_any_text_gives_a_name_or_the_one_error(text: str) -> None:
    try:
        name = FormatName.parse(text)
    except IllegalFormatNameError:
        return
    assert FormatName.parse(str(name)) == name


@given(single_names, single_names)
def test_names_are_equal_exactly_when_their_texts_are_without_case(
    one: FormatName, other: FormatName
) -> None:
    assert (one == other) is (str(one).casefold() == str(other).casefold())


def test_different_kinds_and_parts_differ() -> None:
    names = [name for _, name, _ in EXAMPLES]
    assert len(set(names)) == len(names)
    assert PublicFormatName(GUID) != f"PUBLIC={G}"
    assert DirectFormatName.from_wire(r"OS:h\q") != PathName.parse(r"DIRECT=OS:h\q")


@given(format_names)
def test_names_survive_copies_and_pickles(name: FormatName) -> None:
    assert copy.deepcopy(name) == name
    assert pickle.loads(pickle.dumps(name)) == name  # noqa: S301 (our own bytes)


@pytest.mark.parametrize(
    "wire_name",
    [
        r"OS:a04bm02\q",
        r"Os:H\PRIVATE$\Q",
        r"tcp:[::1]\q;Journal",
        r"http://H:0080/MSMQ\private$\q",
        "http://h/MSMQ/private%24/q?Stream=XRntV",
        r"TCP:192.0.2.9\PRIVATE$\order_queue$",
    ],
)
def test_the_wire_name_is_as_the_sender_spelled_it(wire_name: str) -> None:
    name = DirectFormatName.from_wire(wire_name)
    assert name.wire_name == wire_name
    assert FormatName.parse(f"direct={wire_name}") == name
    assert DirectFormatName(name.protocol, name.path).wire_name == str(name).removeprefix("DIRECT=")


def test_wire_names_that_differ_in_case_keep_their_own_spelling() -> None:
    one, other = DirectFormatName.from_wire(r"OS:host\Q"), DirectFormatName.from_wire(r"os:HOST\q")
    assert one == other
    assert (one.wire_name, other.wire_name) == (r"OS:host\Q", r"os:HOST\q")


@pytest.mark.parametrize("wire_name", ["", "OS", r"DIRECT=OS:h\q", r"OS:h\q,DIRECT=OS:h\r", "OS:h\\q\0"])
def test_wire_names_that_are_none(wire_name: str) -> None:
    with pytest.raises(IllegalFormatNameError):
        DirectFormatName.from_wire(wire_name)


def test_an_unreadable_name_is_kept_as_it_came_and_equals_no_readable_one() -> None:
    name = UnreadableFormatName(r"UDP:Host\q")
    assert name.wire_name == r"UDP:Host\q"
    assert name == UnreadableFormatName(r"udp:host\Q")
    assert UnreadableFormatName(r"OS:h\q") != DirectFormatName.from_wire(r"OS:h\q")
    with pytest.raises(IllegalFormatNameError):
        FormatName.parse(str(name))


def test_a_wire_name_is_parsed_once() -> None:
    assert DirectFormatName.from_wire(r"OS:h\once") is DirectFormatName.from_wire(r"OS:h\once")


@pytest.mark.conformance("DMPR-228")
@pytest.mark.parametrize(
    ("text", "path", "machine"),
    [
        (r"DIRECT=OS:srv\q", r"srv\q", "srv"),
        (r"DIRECT=OS:.\private$\q", r".\private$\q", "."),
        (r"DIRECT=TCP:192.0.2.7\private$\q;retry", r"192.0.2.7\private$\q;retry", "192.0.2.7"),
        (r"DIRECT=TCP:2001:db8::9\q;JOURNAL", r"2001:db8::9\q;JOURNAL", "2001:db8::9"),
        (r"DIRECT=OS:srv\system$;DEADLETTER", r"srv\system$;DEADLETTER", "srv"),
        (r"DIRECT=IPX:00000012:00a0234f7500\q", r"00000012:00a0234f7500\q", "00000012:00a0234f7500"),
        ("DIRECT=HTTP://srv/msmq/private$/q", "", "srv"),
        ("DIRECT=HTTP://srv:8080/msmq/q", "", "srv"),
        ("DIRECT=HTTPS://[2001:db8::9]:8443/msmq/q", "", "2001:db8::9"),
    ],
)
def test_get_queue_path(text: str, path: str, machine: str) -> None:
    name = FormatName.parse(text)
    assert isinstance(name, DirectFormatName)
    assert (name.path_name, name.host) == (path, machine)


@pytest.mark.parametrize(
    ("wire_name", "port"),
    [
        ("HTTP://h/msmq/q", 80),
        ("HTTP://h:/msmq/q", 80),
        ("HTTPS://h/msmq/q", 443),
        ("HTTPS://h:8443/msmq/q", 8443),
        ("HTTPS://[::1]:8443/msmq/q", 8443),
        (r"TCP:::1\q", None),
        (r"OS:h:80\q", None),
    ],
)
def test_port(wire_name: str, port: int | None) -> None:
    name = DirectFormatName.from_wire(wire_name)
    assert name.port == port
    assert name.is_http is (port is not None)


def test_parts_of_a_direct_name() -> None:
    name = DirectFormatName.from_wire(r"OS:h\Private$\Orders;Retry")
    assert (name.queue_name, name.subqueue, name.is_private) == ("Orders", "Retry", True)
    assert not DirectFormatName.from_wire(r"OS:h\Orders").is_private


@pytest.mark.parametrize(
    ("text", "read_only"),
    [
        (f"PUBLIC={G}", False),
        (f"PUBLIC={G};JOURNAL", True),
        (rf"PRIVATE={G}\4", False),
        (rf"PRIVATE={G}\4;JOURNAL", True),
        (r"DIRECT=OS:h\q", False),
        (r"DIRECT=OS:h\q;retry", False),
        (r"DIRECT=OS:h\q;JOURNAL", True),
        (r"DIRECT=OS:h\SYSTEM$;DEADXACT", True),
        (f"MACHINE={G};DEADLETTER", True),
        (f"CONNECTOR={G};XACTONLY", False),
        (f"DL={G}", False),
        ("MULTICAST=234.1.1.1:1", False),
        (f"DL={G},DL={G}", False),
    ],
)
def test_read_only(text: str, read_only: bool) -> None:
    name = FormatName.parse(text)
    assert name.is_read_only is read_only
    assert name.is_multiple_element is ("," in text)


def test_a_list_in_a_list_and_lists_of_fewer_than_two_are_refused() -> None:
    public = PublicFormatName(GUID)
    pair = MultipleElementFormatName((public, public))
    for elements in [(public, pair), (public,), ()]:
        with pytest.raises(IllegalFormatNameError):
            MultipleElementFormatName(elements)


def test_a_list_may_be_as_long_as_the_limit() -> None:
    name = FormatName.parse(",".join([r"DIRECT=OS:h\q"] * MAX_ELEMENTS))
    assert isinstance(name, MultipleElementFormatName)
    assert len(name.elements) == MAX_ELEMENTS


@pytest.mark.conformance("SRMP-004")
@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://h/msmq/private%24/gr%C3%B6%c3%9fe", "größe"),
        ("http://h/%6Dsmq/private$/%71", "q"),
        ("http://h/msmq/private$%5Cq", "q"),
        ("http://h/msmq/private$/50%", "50%"),
        ("http://h/msmq/private$/gr%F6%DFe", "gr%F6%DFe"),  # no UTF-8
    ],
)
def test_urls_may_be_percent_encoded(url: str, name: str) -> None:
    assert DirectFormatName.from_wire(url) == direct("HTTP", "h", PRIVATE, name)


@pytest.mark.parametrize(
    "url", ["http://%68/msmq/q", "http://h/msmq/a%3Fb", "http://h/msmq/a%2Fb", "http://h/msmq/a%00"]
)
def test_percent_encoding_hides_nothing(url: str) -> None:
    with pytest.raises(IllegalFormatNameError):
        DirectFormatName.from_wire(url)


@pytest.mark.parametrize("number", [-1, 2**32])
def test_private_numbers_have_32_bits(number: int) -> None:
    with pytest.raises(IllegalFormatNameError):
        PrivateFormatName(GUID, number)


@pytest.mark.parametrize(
    ("protocol", "queue"),
    [
        ("HTTP", "a/b"),
        ("HTTPS", "a/b"),
        ("HTTP", "a?b"),
        ("HTTP", "a%24"),
        ("HTTPS", "a%20b"),
        ("HTTP", "a%41"),
    ],
)
def test_a_url_cannot_hold_every_queue_name(protocol: str, queue: str) -> None:
    assert str(direct("OS", "h", PUBLIC, queue)) == rf"DIRECT=OS:h\{queue}"
    with pytest.raises(IllegalFormatNameError):
        direct(protocol, "h", PUBLIC, queue)
