"""Random documents, for hypothesis."""

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import strategies as st

from tiercel import nbfx
from tiercel.nbfx import records
from tiercel.nbfx.events import Attribute, Event, declaration

XML_CHARACTERS = st.characters(
    exclude_categories=["Cs"], exclude_characters="".join(map(chr, [*range(32), 0xFFFE, 0xFFFF]))
)
TEXTS = st.text(XML_CHARACTERS, max_size=300)
NAMES = st.sampled_from(["a", "Order", "Id", "Envelope", "x-1", "größe", "日本", "गाने", "e\u0301", "n" * 200])
PREFIXES = st.sampled_from(["", "b", "q", "abc"])
NAMESPACES = st.sampled_from(
    ["urn:a", "urn:b", "http://www.w3.org/2003/05/soap-envelope", "urn:" + "x" * 150]
)

TICKS = st.integers(0, 3_155_378_975_999_999_999)
DATES = st.builds(nbfx.DateTime, TICKS, st.sampled_from(nbfx.Zone))
SPANS = st.builds(nbfx.TimeSpan, st.integers(-(2**63), 2**63 - 1))
DECIMALS = st.builds(
    lambda sign, number, scale: Decimal((sign, tuple(map(int, str(number))), -scale)),
    st.integers(0, 1),
    st.integers(0, 2**96 - 1),
    st.integers(0, 28),
)
# Mono writes some subnormal numbers with more digits than they need.
FLOATS = st.floats(width=64, allow_subnormal=False)
SINGLES = st.floats(width=32).map(nbfx.Single)
INTEGERS = st.integers(-(2**63), 2**64 - 1)
IN_LISTS = st.one_of(
    TEXTS,
    INTEGERS,
    st.booleans(),
    FLOATS,
    SINGLES,
    DECIMALS,
    DATES,
    SPANS,
    st.uuids(),
    st.uuids().map(nbfx.UniqueId),
)
# .NET's reader shows bytes in a list as the text "System.Byte[]", so lists have none here.
ALL_VALUES = IN_LISTS | st.binary(max_size=300) | st.lists(IN_LISTS, max_size=4).map(tuple)
MOMENTS = st.datetimes(timezones=st.sampled_from([None, UTC]), min_value=datetime(1, 1, 1))  # noqa: DTZ001 - of any zone
ARRAYS = st.one_of(
    st.tuples(st.just(records.BOOL | 1), st.lists(st.booleans(), min_size=1, max_size=5)),
    st.tuples(st.just(records.INT16 | 1), st.lists(st.integers(-(2**15), 2**15 - 1), min_size=1)),
    st.tuples(st.just(records.INT32 | 1), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1)),
    st.tuples(st.just(records.INT64 | 1), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1)),
    st.tuples(st.just(records.FLOAT | 1), st.lists(SINGLES, min_size=1, max_size=5)),
    st.tuples(st.just(records.DOUBLE | 1), st.lists(FLOATS, min_size=1, max_size=5)),
    st.tuples(st.just(records.DECIMAL | 1), st.lists(DECIMALS, min_size=1, max_size=5)),
    st.tuples(st.just(records.DATE_TIME | 1), st.lists(DATES, min_size=1, max_size=5)),
    st.tuples(st.just(records.TIME_SPAN | 1), st.lists(SPANS, min_size=1, max_size=5)),
    st.tuples(st.just(records.UUID_TEXT | 1), st.lists(st.uuids(), min_size=1, max_size=5)),
)


@st.composite
def documents(draw: st.DrawFn, *, typed: bool = True) -> list[Event]:
    """The events of a document; with `typed`, its values are of every type and it has arrays."""
    events: list[Event] = []
    values = ALL_VALUES if typed else TEXTS.filter(bool)
    named = _names(draw)

    def element(scope: dict[str, str], depth: int) -> None:
        scope = dict(scope)
        attributes: list[Attribute] = []
        for prefix in draw(st.lists(PREFIXES, max_size=2, unique=True)):
            scope[prefix] = draw(NAMESPACES)
            attributes.append(declaration(prefix, scope[prefix]))
        prefix = draw(st.sampled_from(sorted(scope)))
        for name in draw(st.lists(NAMES, max_size=2, unique=True)):
            chosen = draw(st.sampled_from(sorted(scope)))
            attributes.append((chosen, named(name), scope[chosen] if chosen else "", draw(values)))
        events.append(("start", prefix, named(draw(NAMES)), scope[prefix], tuple(attributes)))
        content(scope, depth)
        events.append(nbfx.END)

    def content(scope: dict[str, str], depth: int) -> None:
        was_text = False
        for _ in range(draw(st.integers(0, 3 if depth < 4 else 1))):
            kind = draw(st.sampled_from(["text", "element", "comment", "array"]))
            if kind == "text" and not was_text:
                events.append(("text", draw(values)))
            elif kind == "element" and depth < 4:
                element(scope, depth + 1)
            elif kind == "comment":
                events.append(("comment", draw(st.text(st.sampled_from("abc é"), max_size=10))))
            elif kind == "array" and typed:
                record, items = draw(ARRAYS)
                events.append(("array", "", named(draw(NAMES)), scope[""], (), record, tuple(items)))
            was_text = kind == "text"

    element({"": ""}, 1)
    return events


def _names(draw: st.DrawFn) -> type[str]:
    return draw(st.sampled_from([str, nbfx.DictionaryString]))
