"""Bodies as DataContractSerializer writes and reads them."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from typing import Any, Literal, NewType
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbfx.vectors import load
from tiercel import nbfx, wcf
from tiercel.framing.body import read_body
from tiercel.framing.receiver import read_envelopes
from tiercel.model.errors import DecodeError, IllegalPropertyVariantTypeError
from tiercel.nbfx.limits import DEPTH_MAX
from tiercel.wcf.data_values import from_element, from_members
from tiercel.wcf.data_writer import write_wrapper
from tiercel.wcf.envelope import Envelope

NAMESPACE = "http://example.org/"
ARRAYS = "http://schemas.microsoft.com/2003/10/Serialization/Arrays"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


class Color(Enum):
    RED = 1
    GREEN = 2


class Size(IntEnum):
    SMALL = 1


class Toppings(Flag):
    CHEESE = 1
    OLIVES = 2


@wcf.data_contract(namespace="http://schemas.datacontract.org/2004/07/Orders")
@dataclass
class Line:
    item: str = wcf.member(name="Item", default="")
    count: int = wcf.member(name="Count", default=1)


@wcf.data_contract(name="Order", namespace="http://schemas.datacontract.org/2004/07/Orders")
@dataclass
class PurchaseOrder:
    zebra: int = 0
    id: int = wcf.member(name="Id", order=1, default=0)
    note: str | None = wcf.member(default=None)
    lines: list[Line] = field(default_factory=list)
    quiet: int = wcf.member(emit_default=False, default=5)


@dataclass
class Express(PurchaseOrder):
    alarm: bool = False


@wcf.data_contract(namespace="urn:garage")
@dataclass
class Bike(Line):
    bell: bool = False


@dataclass
class Cart:
    first: Line
    rest: list[Line] = field(default_factory=list)
    anything: Any = None


def written(**parameters: Any) -> str:
    return nbfx.to_text(write_wrapper("Submit", NAMESPACE, parameters))


def inside(**parameters: Any) -> str:
    head, tail = f'<Submit xmlns="{NAMESPACE}">', "</Submit>"
    text = written(**parameters)
    assert text.startswith(head)
    assert text.endswith(tail)
    return text[len(head) : -len(tail)]


@pytest.mark.parametrize(
    ("value", "xml"),
    [
        ("tea & cake", "<v>tea &amp; cake</v>"),
        ("", "<v></v>"),
        (True, "<v>true</v>"),
        (-7, "<v>-7</v>"),
        (1.5, "<v>1.5</v>"),
        (float("inf"), "<v>INF</v>"),
        (Decimal("12.30"), "<v>12.30</v>"),
        (datetime(2024, 2, 29, 12, tzinfo=UTC), "<v>2024-02-29T12:00:00Z</v>"),
        (datetime(2024, 2, 29, 12), "<v>2024-02-29T12:00:00</v>"),  # noqa: DTZ001 - unspecified
        (date(2024, 2, 29), "<v>2024-02-29</v>"),
        (time(1, 2, 3), "<v>01:02:03</v>"),
        (timedelta(days=1, seconds=90), "<v>P1DT1M30S</v>"),
        (GUID, f"<v>{GUID}</v>"),
        (b"\1\2\3\4\5", "<v>AQIDBAU=</v>"),
        (bytearray(b"\1"), "<v>AQ==</v>"),
        (Color.RED, "<v>RED</v>"),
        (Size.SMALL, "<v>SMALL</v>"),
        (Toppings.CHEESE | Toppings.OLIVES, "<v>CHEESE OLIVES</v>"),
        (None, f'<v xmlns:i="{XSI}" i:nil="true"></v>'),
        ([], f'<v xmlns:b="{ARRAYS}"></v>'),
        ([1, 2], f'<v xmlns:b="{ARRAYS}"><b:int>1</b:int><b:int>2</b:int></v>'),
        ([1, 2**31], f'<v xmlns:b="{ARRAYS}"><b:long>1</b:long><b:long>2147483648</b:long></v>'),
        (["a", ""], f'<v xmlns:b="{ARRAYS}"><b:string>a</b:string><b:string></b:string></v>'),
        ([True], f'<v xmlns:b="{ARRAYS}"><b:boolean>true</b:boolean></v>'),
        ([1.5], f'<v xmlns:b="{ARRAYS}"><b:double>1.5</b:double></v>'),
        ([GUID], f'<v xmlns:b="{ARRAYS}"><b:guid>{GUID}</b:guid></v>'),
        ([[1]], f'<v xmlns:b="{ARRAYS}"><b:ArrayOfint><b:int>1</b:int></b:ArrayOfint></v>'),
        ({"b": 1, "B": 2, "a": 3}, "<v><B>2</B><a>3</a><b>1</b></v>"),
        (wcf.Items("Line", [{"x": 1}]), "<v><Line><x>1</x></Line></v>"),
    ],
)
def test_values(value: Any, xml: str) -> None:
    assert inside(v=value) == xml


def test_parameters_keep_their_order() -> None:
    assert inside(b=1, a=2) == "<b>1</b><a>2</a>"


def test_a_contract() -> None:
    """Members without an Order by name, then those with one; the prefix is b, as .NET writes it."""
    order = PurchaseOrder(zebra=3, id=7, lines=[Line("tea", 2)])
    contract = "http://schemas.datacontract.org/2004/07/Orders"
    assert inside(order=order) == (
        f'<order xmlns:b="{contract}">'
        "<b:lines><b:Line><b:Count>2</b:Count><b:Item>tea</b:Item></b:Line></b:lines>"
        f'<b:note xmlns:i="{XSI}" i:nil="true"></b:note><b:zebra>3</b:zebra><b:Id>7</b:Id></order>'
    )


def test_members_of_a_base_class_come_first() -> None:
    names = [name for name in ("zebra", "Id", "alarm") if name in inside(o=Express(quiet=5))]
    text = inside(o=Express())
    assert sorted(names, key=lambda name: text.index(f"{name}>")) == ["zebra", "Id", "alarm"]


def test_members_at_their_default_may_be_left_out() -> None:
    assert "quiet" not in inside(o=PurchaseOrder())
    assert "quiet" in inside(o=PurchaseOrder(quiet=6))


ORDERS = "http://schemas.datacontract.org/2004/07/Orders"
SYSTEM = "http://schemas.datacontract.org/2004/07/System"
DEFAULT = "http://schemas.datacontract.org/2004/07/"


@pytest.mark.parametrize(
    ("items", "name", "namespace"),
    [
        ([Color.RED], "Color", DEFAULT),
        ([[Line()]], "ArrayOfLine", ORDERS),
        ([[1], []], "ArrayOfint", ARRAYS),
        ([1, None], "int", SYSTEM),
        (["a", None], "string", ARRAYS),
        ([Line(), Bike()], "Line", ORDERS),
        ([Bike()], "Bike", "urn:garage"),
        ([wcf.Long(1), 2], "long", ARRAYS),
        ([date(2024, 2, 29)], "dateTime", ARRAYS),
        ([1, "a"], "anyType", ARRAYS),
    ],
)
def test_names_of_items(items: list[Any], name: str, namespace: str) -> None:
    found = document(v=items).root[0]
    assert {each.tag for each in found} == {f"{{{namespace}}}{name}"}


def test_members_have_the_namespace_of_the_class_that_defines_them() -> None:
    tags = [each.tag for each in document(v=Bike()).root[0]]
    assert tags == [f"{{{ORDERS}}}Count", f"{{{ORDERS}}}Item", "{urn:garage}bell"]


def test_derived_classes_say_their_type() -> None:
    xml = inside(v=Cart(Line(), [Line(), Bike()], anything=7))
    assert xml.count("i:type=") == 2
    assert '<b:first xmlns:c="http://schemas.datacontract.org/2004/07/Orders"><c:Count>' in xml
    assert (
        '<c:Line xmlns:d="urn:garage" xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:type="d:Bike">'
        in xml
    )
    assert 'xmlns:c="http://www.w3.org/2001/XMLSchema" i:type="c:int">7<' in xml


@pytest.mark.parametrize(
    "anything", [7, 2**40, "tea", True, 0.1, Decimal("1.5"), GUID, timedelta(1), b"1", None, [1, "a"]]
)
def test_derived_classes_and_values_of_any_type_come_back(anything: Any) -> None:
    cart = Cart(Bike("a", 1, True), [Line(), Bike()], anything)
    assert typed(cart, Cart) == cart
    text = nbfx.to_elements(nbfx.from_text(written(v=cart)))
    assert from_element(text.root[0], text, Cart) == cart


OrderId = NewType("OrderId", int)


@dataclass
class Annotated:
    """Members whose annotations say little about their types in .NET."""

    id: OrderId = OrderId(0)
    mode: Literal["fast", "slow"] = "fast"
    items: list = field(default_factory=list)  # type: ignore[type-arg]
    many: list[Any] = field(default_factory=list)
    either: int | str = 0


def test_annotations_without_a_type_of_dotnet() -> None:
    """No type is shown that the receiver may have declared otherwise, unless anything is allowed."""
    xml = inside(v=Annotated(OrderId(5), "slow", [1], [2], 3))
    for shown in "<b:id>5<", "<b:mode>slow<", "<c:int>1<", 'i:type="d:int">2<', 'i:type="c:int">3<':
        assert shown in xml, xml
    assert xml.count("i:type") == 2


def test_a_type_of_the_same_name_in_another_namespace() -> None:
    """Python classes need not have the namespaces of .NET's."""
    text = written(v=Cart(Bike())).replace("urn:garage", "urn:elsewhere")
    found = nbfx.to_elements(nbfx.from_text(text))
    assert from_element(found.root[0], found, Cart).first == Bike()


def test_an_unknown_derived_class_is_refused() -> None:
    text = written(v=Cart(Bike())).replace("d:Bike", "d:Truck")
    found = nbfx.to_elements(nbfx.from_text(text))
    assert "Truck" in text
    with pytest.raises(DecodeError, match=r"'{urn:garage}Truck', which is neither Line nor derived from it"):
        from_element(found.root[0], found, Cart)


@pytest.mark.parametrize("value", [object(), 1j, {1: 2}, {"a": object()}])
def test_values_without_a_form(value: Any) -> None:
    with pytest.raises(IllegalPropertyVariantTypeError):
        written(v=value)


def test_a_value_that_contains_itself() -> None:
    value: list[Any] = []
    value.append({"v": value})
    with pytest.raises(IllegalPropertyVariantTypeError, match="nested deeper"):
        written(v=value)


# And back.


def document(**parameters: Any) -> nbfx.Document:
    """What arrives, through binary XML."""
    return nbfx.to_elements(nbfx.decode(nbfx.encode(write_wrapper("Submit", NAMESPACE, parameters))))


def plain(**parameters: Any) -> dict[str, Any]:
    found = document(**parameters)
    return from_members(found.root, found)


def test_plain_values() -> None:
    moment = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)
    values = {
        "text": "tea",
        "number": 7,
        "flag": True,
        "money": Decimal("12.30"),
        "moment": moment,
        "blob": b"\1\2",
        "nothing": None,
        "many": [1, 2, 3],
        "nested": {"a": {"b": "c"}},
    }
    assert plain(**values) == values


def test_repeated_members_are_a_list() -> None:
    found = plain(v=wcf.Items("Line", [{"x": 1}, {"x": 2}, {"x": 3}]))
    assert found == {"v": {"Line": [{"x": 1}, {"x": 2}, {"x": 3}]}}


def typed(value: Any, kind: Any) -> Any:
    found = document(v=value)
    return from_element(found.root[0], found, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("tea", str),
        (7, int),
        (7.0, float),
        (1.5, float),
        (0.1, float),
        (True, bool),
        (Decimal("12.30"), Decimal),
        (datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC), datetime),
        (date(2024, 2, 29), date),
        (time(1, 2, 3), time),
        (timedelta(days=-1, seconds=90, microseconds=5), timedelta),
        (GUID, UUID),
        (b"\1\2\3\4", bytes),
        (Color.GREEN, Color),
        (Toppings.CHEESE | Toppings.OLIVES, Toppings),
        (Toppings(0), Toppings),
        (None, int | None),
        (5, int | None),
        ([1, 2], list[int]),
        ((1, 2), tuple[int, ...]),
        ([["a"]], list[list[str]]),
        ([1, None], list[int | None]),
        ({"a": 1}, dict),
        (PurchaseOrder(zebra=1, id=2, note="n", lines=[Line("tea", 2), Line("cup")], quiet=9), PurchaseOrder),
        (Express(alarm=True, note=None), Express),
    ],
)
def test_typed_values(value: Any, kind: Any) -> None:
    assert typed(value, kind) == value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (" 7 ", int, 7),
        ("1", bool, True),
        ("-INF", float, float("-inf")),
        ("2024-02-29T12:00:00.1234567+02:00", datetime, datetime(2024, 2, 29, 10, 0, 0, 123456, tzinfo=UTC)),
        ("-P1DT2H3M4.005S", timedelta, -timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
        ("AQ ID", bytes, b"\1\2\3"),
        ("2024-02-29T00:00:00", date, date(2024, 2, 29)),
        ("5", wcf.Long, 5),
        ("x", Any, "x"),
    ],
)
def test_texts(text: str, kind: Any, value: Any) -> None:
    assert typed(text, kind) == value


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        ("x", int, "data contract.v at byte 0: 'x' is not a valid int"),
        ("9" * 50, int, "is not a valid int"),
        ("1_000", int, "'1_000' is not a valid int"),
        ("\u0663", int, "is not a valid int"),
        ("1_0.5", float, "is not a valid float"),
        ("infinity", float, "is not a valid float"),
        ("1_0.5", Decimal, "is not a valid Decimal"),
        ("NaN", Decimal, "is not a valid Decimal"),
        ("1E99999", Decimal, "is not a valid Decimal"),
        ("x", bool, "'x' is not a valid bool"),
        ("x", datetime, "is not a valid datetime"),
        ("2024-02-30T00:00:00", datetime, "is not a valid datetime"),
        ("PT", timedelta, "is not a valid timedelta"),
        ("x", Decimal, "is not a valid Decimal"),
        ("x", UUID, "is not a valid UUID"),
        ("*", bytes, "is not a valid bytes"),
        ("BLUE", Color, "'BLUE' is not a valid Color"),
        ("x", complex, "cannot become complex"),
        (None, int, "is nil, but must be int"),
        ({"zebra": "x"}, PurchaseOrder, "zebra at byte 0: 'x' is not a valid int"),
    ],
)
def test_values_of_another_type(value: Any, kind: Any, said: str) -> None:
    with pytest.raises(DecodeError) as caught:
        typed(value, kind)
    assert said in str(caught.value)


def test_a_member_that_is_missing() -> None:
    @dataclass
    class Needs:
        name: str

    with pytest.raises(DecodeError, match="has no name, which Needs must have"):
        typed({"other": 1}, Needs)


def test_members_of_a_later_version_are_ignored() -> None:
    assert typed({"Item": "tea", "New": 1}, Line) == Line("tea")


SCALARS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.none(),
    st.binary(min_size=1),
    st.datetimes(timezones=st.just(UTC)),
    st.decimals(-(10**12), 10**12, places=4),
)


@given(st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), SCALARS, max_size=5))
def test_dicts_survive(values: dict[str, Any]) -> None:
    found = plain(v={"always": 1, **values})["v"]
    assert {name: _same(value) for name, value in found.items()} == {
        name: _same(value) for name, value in {"always": 1, **values}.items()
    }


def _same(value: Any) -> Any:
    """A text of one digit is written as a number, as .NET writes it."""
    return str(value) if value in {"0", "1"} or (type(value) is int and value in {0, 1}) else value


def test_an_envelope_of_dotnet() -> None:
    """The vector's order, read as .NET's class would be."""

    @dataclass
    class Order:
        Id: int
        Name: str
        Prices: list[float]
        When: datetime
        Key: UUID
        Blob: bytes
        Total: Decimal
        Paid: bool
        Span: timedelta
        Tags: list[str]
        Next: Any

    vector = next(each for each in load("nmfmb") if each["name"] == "02_datagram_order")
    (events,) = read_envelopes(read_body(bytes.fromhex(vector["hex"])))
    envelope = Envelope(events)
    assert envelope.argument("order", Order) == Order(
        1,
        "würfel 1",
        [1.5, 2.25, -1e300],
        datetime(2024, 2, 29, 12, tzinfo=UTC),
        GUID,
        b"\1\2\3\4\5",
        Decimal("12.30"),
        False,
        timedelta(seconds=90),
        ["a", "", "世"],
        None,
    )
    assert envelope.reply_to == "http://www.w3.org/2005/08/addressing/anonymous"
    with pytest.raises(DecodeError, match="there is no parameter 'other'"):
        envelope.argument("other", int)


def test_a_fault_of_dotnet() -> None:
    vector = next(each for each in load("nmfmb") if each["name"] == "09_datagram_fault_soap12")
    (events,) = read_envelopes(read_body(bytes.fromhex(vector["hex"])))
    envelope = Envelope(events)
    assert envelope.is_fault
    assert envelope.fault_reason == "no stock"
    assert envelope.relates_to.startswith("urn:uuid:")


# Objects that refer to each other, as Mono's DataContractSerializer wrote them.

Z = 'xmlns:z="http://schemas.microsoft.com/2003/10/Serialization/"'
IS_REFERENCE = (  # [DataContract(IsReference = true)] class Node
    '<Plain xmlns="urn:x" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">'
    f'<A z:Id="i1" {Z}><Name>n</Name><Next z:Ref="i1"/><Other i:nil="true"/></A>'
    f'<All><Node z:Ref="i1" {Z}/>'
    f'<Node z:Id="i2" {Z}><Name>m</Name><Next z:Ref="i1"/><Other z:Ref="i1"/></Node>'
    f'<Node z:Ref="i1" {Z}/></All><B z:Ref="i2" {Z}/><S>s</S><T>s</T></Plain>'
)
PRESERVED = (  # preserveObjectReferences
    f'<Plain z:Id="1" xmlns="urn:x" xmlns:i="http://www.w3.org/2001/XMLSchema-instance" {Z}>'
    '<A z:Id="2"><Name z:Id="3">m</Name><Next z:Id="4"><Name z:Id="5">n</Name>'
    '<Next z:Ref="4" i:nil="true"/><Other i:nil="true"/></Next><Other z:Ref="4" i:nil="true"/></A>'
    '<All i:nil="true"/><B z:Ref="2" i:nil="true"/><S z:Id="6">s</S><T z:Ref="6" i:nil="true"/></Plain>'
)


@dataclass
class Node:
    Name: str
    Next: "Node | None" = None
    Other: "Node | None" = None


@dataclass(frozen=True)
class Plain:
    A: Node
    B: Node
    S: str
    T: str
    All: list[Node] | None = None


def parts(xml: str) -> tuple[Any, nbfx.Document]:
    document = nbfx.to_elements(nbfx.from_text(xml))
    return document.root, document


def test_references_are_the_objects_that_they_refer_to() -> None:
    found = from_element(*parts(IS_REFERENCE), Plain)
    assert found.All is not None
    assert found.A.Next is found.A
    assert found.A.Other is None
    assert [each.Name for each in found.All] == ["n", "m", "n"]
    assert found.All[0] is found.A
    assert found.All[1] is found.B
    assert found.B.Next is found.B.Other is found.A


def test_references_of_a_serializer_that_preserves_them() -> None:
    found = from_element(*parts(PRESERVED), Plain)
    assert (found.S, found.T, found.All) == ("s", "s", None)
    assert found.B is found.A
    assert found.A.Next is found.A.Other
    assert found.A.Next is not None
    assert found.A.Next.Next is found.A.Next


def test_references_without_a_type() -> None:
    found = from_members(*parts(IS_REFERENCE))
    assert found["A"]["Next"] is found["A"]
    assert found["All"]["Node"] == [found["A"], found["B"], found["A"]]
    assert from_members(*parts(PRESERVED))["T"] == "s"


def test_each_parameter_has_ids_of_its_own() -> None:
    one, two = (f'<{n} z:Id="i1" {Z}><V>{n}</V><W z:Ref="i1"/></{n}>' for n in ("a", "b"))
    found = from_members(*parts(f"<r>{one}{two}</r>"))
    assert found["a"]["W"] is found["a"]
    assert found["b"]["W"] is found["b"]
    assert found["b"]["V"] == "b"


@pytest.mark.parametrize("kind", [Any, dict, list[str], str | None, Node])
def test_a_reference_to_nothing(kind: Any) -> None:
    root, document = parts(f'<r {Z}><a z:Ref="i1"/><b z:Id="i1"/></r>')
    with pytest.raises(DecodeError, match="refers to an object that the envelope does not have"):
        from_element(root[0], document, kind)


@dataclass
class Tree:
    items: "tuple[Tree, ...]" = ()


def test_a_tuple_cannot_contain_itself() -> None:
    document = parts(f'<r {Z}><items z:Id="i1"><Tree><items z:Ref="i1"/></Tree></items></r>')
    with pytest.raises(DecodeError, match="contains itself, which tuple"):
        from_element(*document, Tree)


def test_many_references_to_references_are_few_objects() -> None:
    """Written out, they would be 2^60."""
    levels = "".join(f'<l z:Id="i{n}"><a z:Ref="i{n - 1}"/><b z:Ref="i{n - 1}"/></l>' for n in range(1, 61))
    found = from_members(*parts(f'<r {Z}><l z:Id="i0"><a>x</a></l>{levels}</r>'))
    assert found["l"][60]["a"] is found["l"][60]["b"] is found["l"][59]


@pytest.mark.parametrize("references", ["", '<x z:Id="i1"/><x z:Ref="i1"/>'])
def test_deep_nesting_is_read_or_refused(references: str) -> None:
    inner = DEPTH_MAX - 1
    root, document = parts(f"<r {Z}>{references}{'<a>' * inner}x{'</a>' * inner}</r>")
    kinds: tuple[Any, ...] = (None, dict, Any)
    for kind in kinds:
        try:
            if kind is None:
                found: Any = from_members(root, document)
            else:
                found = from_element(root, document, kind)
        except DecodeError as error:
            assert references, "without references the stack suffices"
            assert "nested too deeply" in str(error)  # noqa: PT017
        else:
            for _ in range(inner):
                found = found["a"]
            assert found == "x"
