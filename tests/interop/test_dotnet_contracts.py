"""Bodies and schemas against .NET's DataContractSerializer: the objects are those of contracts.cs."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree.ElementTree import Element

import pytest

from tiercel import nbfx, wcf
from tiercel.wcf.data_values import from_element
from tiercel.wcf.data_writer import write_wrapper

from .dotnet_oracle import Oracle

ROOT = Path(__file__).resolve().parents[2]
SERVICE = "http://example.org/"
UTC_MOMENT = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)
KEY = UUID("00112233-4455-6677-8899-aabbccddeeff")
XSI = "http://www.w3.org/2001/XMLSchema-instance"

shop = wcf.data_contract(namespace="http://schemas.datacontract.org/2004/07/Shop")
other = wcf.data_contract(namespace="http://example.org/other")


@shop
class Color(Enum):
    RED = 0
    GREEN = 1


@shop
class Toppings(Flag):
    CHEESE = 1
    OLIVES = 2


@shop
@dataclass
class Line:
    Item: str | None
    Count: int


@other
@dataclass
class Customer:
    Name: str
    Last: Line


@shop
@dataclass
class Animal:
    Name: str


@other
@dataclass
class Dog(Animal):
    Age: int = 0
    Barks: bool = False


@other
@dataclass
class Puppy(Dog):
    Aunt: str | None = None


@shop
@dataclass
class Scalars:
    Flag: bool
    Int: int
    Long: int
    Double: float
    Whole: float
    Money: Decimal
    Text: str
    Empty: str
    Null: str | None
    Utc: datetime
    Unspecified: datetime
    Key: UUID
    Span: timedelta
    Blob: bytes
    Maybe: int | None
    Perhaps: int | None
    Color: "Color"
    Toppings: "Toppings"


@shop
@dataclass
class Lists:
    Ints: list[int]
    Longs: list[wcf.Long]
    Texts: list[str | None]
    Flags: list[bool]
    Doubles: list[float]
    Moneys: list[Decimal]
    Moments: list[datetime]
    Keys: list[UUID]
    Spans: list[timedelta]
    Blobs: list[bytes]
    Colors: list[Color]
    Lines: list[Line | None]
    Nested: list[list[int]]
    Deep: list[list[Line]]
    Holes: list[int | None]
    Empty: list[int]
    Null: list[int] | None


@shop
@dataclass
class Nested:
    Customer: "Customer | None"
    Line: "Line | None"
    Next: "Nested | None" = None


@shop
@dataclass
class Ordered:
    b: int
    A: int
    Alpha: int = wcf.member(order=2)
    Zulu: int = wcf.member(order=1)
    Quiet: int = wcf.member(emit_default=False, default=0)
    original: int = wcf.member(name="Renamed", default=0)


@shop
@dataclass
class Zoo:
    First: Animal
    Second: Animal
    Third: Dog
    All: list[Animal]
    Nobody: Animal | None


@shop
@dataclass
class Anything:
    Number: Any
    Text: Any
    Line: Any
    Null: Any
    Mixed: list[Any]


LINES = {number: Line("tea", number) for number in range(8)}
CASES: dict[str, Any] = {
    "scalars": Scalars(
        Flag=True,
        Int=-7,
        Long=1 << 40,
        Double=0.1,
        Whole=3.0,
        Money=Decimal("12.30"),
        Text="tea & <cake> 世",
        Empty="",
        Null=None,
        Utc=UTC_MOMENT,
        Unspecified=datetime(2024, 2, 29, 12),  # noqa: DTZ001 - it has no zone
        Key=KEY,
        Span=timedelta(seconds=90),
        Blob=bytes([1, 2, 3, 4, 5]),
        Maybe=5,
        Perhaps=None,
        Color=Color.GREEN,
        Toppings=Toppings.CHEESE | Toppings.OLIVES,
    ),
    "lists": Lists(
        Ints=[1, -2, 300],
        Longs=[wcf.Long(1), wcf.Long(1 << 40)],
        Texts=["a", "", None],
        Flags=[True, False],
        Doubles=[1.5, 0.1],
        Moneys=[Decimal("1.50")],
        Moments=[UTC_MOMENT],
        Keys=[KEY],
        Spans=[timedelta(seconds=90)],
        Blobs=[b"\1\2"],
        Colors=[Color.RED, Color.GREEN],
        Lines=[LINES[1], None, LINES[2]],
        Nested=[[1], []],
        Deep=[[LINES[3]]],
        Holes=[1, None],
        Empty=[],
        Null=None,
    ),
    "nested": Nested(Customer("Miller", LINES[4]), LINES[5], Nested(None, LINES[6])),
    "ordered": Ordered(Alpha=1, Zulu=2, b=3, A=4, original=5),
    "zoo": Zoo(
        First=Animal("cow"),
        Second=Dog("rex", 3, True),
        Third=Puppy("pup", 1, Aunt="ann"),
        All=[Animal("a"), Dog("d"), Puppy("p")],
        Nobody=None,
    ),
    "anything": Anything(7, "tea", LINES[7], None, [1, "two", 2.5, True, UTC_MOMENT, None]),
}
EACH_CASE = pytest.mark.parametrize("case", CASES)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        started = Oracle(ROOT / "build" / "dotnet_xml")
    except FileNotFoundError as problem:
        pytest.skip(str(problem))
    yield started
    started.close()


def ask(oracle: Oracle, *words: str) -> dict[str, Any]:
    answer = oracle.ask("contract", *words)
    assert answer["ok"], answer["error"]
    return answer


def parameter(value: Any) -> list[nbfx.Event]:
    """The element of a parameter, with the declaration of its wrapper's namespace."""
    start, *rest = list(write_wrapper("Submit", SERVICE, {"value": value}))[1:-1]
    assert start[0] == "start"
    return [(*start[:4], (nbfx.declaration("", SERVICE), *start[4])), *rest]


Tree = tuple[str, dict[str, str], str, list[Any]]


def tree(document: nbfx.Document, element: Element | None = None) -> Tree:
    """An element by what it means: names in full, the prefixes of i:type resolved."""
    element = document.root if element is None else element
    attributes = dict(element.attrib)
    if element in document.types:
        attributes[f"{{{XSI}}}type"] = document.types[element]
    return element.tag, attributes, element.text or "", [tree(document, child) for child in element]


def of_text(text: str) -> nbfx.Document:
    return nbfx.to_elements(nbfx.from_text(text))


@EACH_CASE
def test_tiercel_writes_what_dotnet_writes(
    oracle: Oracle, case: str, transcript: Callable[[str], None]
) -> None:
    theirs = ask(oracle, "write", case)["xml"]
    assert tree(nbfx.to_elements(parameter(CASES[case]))) == tree(of_text(theirs))
    transcript(f"{case}: {len(theirs)} characters of DataContractSerializer, and Tiercel writes the same")


@EACH_CASE
def test_dotnet_reads_what_tiercel_writes(oracle: Oracle, case: str) -> None:
    """What it has read it writes again: the same as the object that it was meant to be."""
    ours = base64.b64encode(nbfx.to_text(parameter(CASES[case])).encode()).decode()
    assert ask(oracle, "read", case, ours)["xml"] == ask(oracle, "write", case)["xml"]


@EACH_CASE
def test_tiercel_reads_what_dotnet_writes(oracle: Oracle, case: str) -> None:
    answer, value = ask(oracle, "write", case), CASES[case]
    kind: Any = type(value)
    for document in (
        of_text(answer["xml"]),
        nbfx.to_elements(nbfx.decode(bytes.fromhex(answer["hex"]), static=False)),
    ):
        found = from_element(document.root, document, kind)
        if case == "anything":  # of what nothing declares, a dict; its numbers are text in a text
            found.Line = Line(found.Line["Item"], int(found.Line["Count"]))
        assert found == value


def values(data: bytes) -> list[Any]:
    """The values of the elements that have one; .NET writes bytes in two records, of threes and the rest."""
    document = nbfx.to_elements(nbfx.decode(data, static=False))
    return [document.values.get(each, each.text) for each in document.root.iter()]


@EACH_CASE
def test_binary_values_have_the_types_of_dotnet(oracle: Oracle, case: str) -> None:
    ours = values(nbfx.encode(parameter(CASES[case]), static=False))
    assert ours == values(bytes.fromhex(ask(oracle, "write", case)["hex"]))


@EACH_CASE
def test_bodies_are_valid_by_the_schema_of_the_wsdl(oracle: Oracle, case: str) -> None:
    """The schemas are compiled by .NET, and what Tiercel writes is validated against them."""
    service = wcf.Service(wcf.Endpoint(None, "net.msmq://localhost/private/orders"))
    action, value = "http://example.org/IOrders/Submit", CASES[case]
    known = {"value": type(value), "line": Line}  # Anything does not say that it may contain a Line
    service.operation(action, namespace=SERVICE, parameters=known)(print)
    body = nbfx.to_text(write_wrapper("Submit", SERVICE, {"value": value}))
    words = (base64.b64encode(text.encode()).decode() for text in (service.wsdl("Orders"), body))
    assert ask(oracle, "schema", *words)["problems"] == []
