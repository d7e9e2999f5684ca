"""What must hold for every document, in both directions."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tiercel import nbfx
from tiercel.nbfx.events import Event

from .documents import ALL_VALUES, MOMENTS, documents

FORMS = st.sampled_from(["nbfx", "nbfs", "nbfse"])


def comparable(value: nbfx.Value) -> Any:
    """A value without its record: .NET's writer takes the shortest one that holds the same number or text."""
    if type(value) is tuple:
        return tuple(map(comparable, value))
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else float(value)
    if value in {"0", "1"} and isinstance(value, str):
        return int(value)
    return value if type(value) is int else nbfx.text_of(value)


def shape(event: Event) -> Any:
    if event[0] == "start":
        return (*event[:4], tuple((*each[:3], comparable(each[3])) for each in event[4]))
    if event[0] == "text":
        return ("text", comparable(event[1]))
    if event[0] == "array":
        return (*event[:6], tuple(map(comparable, event[6])))
    return event[0] if event[0] == "end" else event


@given(documents(), FORMS)
def test_events_survive(events: list[Event], form: str) -> None:
    from .vectors import read, write  # noqa: PLC0415

    data = write(form, events)
    found = read(form, data)
    assert list(map(shape, found)) == list(map(shape, events))
    assert write(form, found) == data


@given(st.lists(documents(), min_size=2, max_size=4))
def test_the_dictionary_of_a_session_runs_on(session: list[list[Event]]) -> None:
    writing, reading = nbfx.WriterSession(), nbfx.ReaderSession()
    for events in session:
        found = nbfx.decode(nbfx.encode(events, writing), reading)
        assert list(map(shape, found)) == list(map(shape, events))


@given(documents())
def test_a_session_sends_a_string_once(events: list[Event]) -> None:
    writing = nbfx.WriterSession()
    nbfx.encode(events, writing)
    assert nbfx.encode(events, writing)[0] == 0  # an empty table


@given(documents(typed=False))
def test_text_survives(events: list[Event]) -> None:
    text = nbfx.to_text(events)
    assert nbfx.to_text(nbfx.from_text(text)) == text
    assert nbfx.from_text(text.encode("utf-16"))


@given(documents())
def test_elements_survive(events: list[Event]) -> None:
    """Elements have no prefixes of their own, so they are compared as elements."""
    document = nbfx.to_elements(events)
    again = nbfx.to_elements(nbfx.decode(nbfx.encode(nbfx.from_elements(document.root))))
    assert same(document.root, again.root)


def same(one: Any, other: Any) -> bool:
    return (
        (one.tag, one.attrib, one.text or "", one.tail or "")
        == (other.tag, other.attrib, other.text or "", other.tail or "")
        and len(one) == len(other)
        and all(map(same, one, other))
    )


@given(ALL_VALUES)
def test_values_survive(value: nbfx.Value) -> None:
    events: list[Event] = [("start", "", "r", "", ()), ("text", value), nbfx.END]
    found = next(event[1] for event in nbfx.decode(nbfx.encode(events)) if event[0] == "text")
    assert str(comparable(found)) == str(comparable(value))


@given(MOMENTS)
def test_datetimes_survive(moment: Any) -> None:
    assert nbfx.DateTime.of(moment).datetime() == moment


@given(st.timedeltas())
def test_timedeltas_survive(duration: Any) -> None:
    assert nbfx.TimeSpan.of(duration).timedelta() == duration


@given(st.binary(max_size=300), FORMS)
def test_any_bytes_give_events_or_the_one_error(data: bytes, form: str) -> None:
    from tiercel.model.errors import DecodeError  # noqa: PLC0415

    from .vectors import read  # noqa: PLC0415

    try:
        events = read(form, data)
    except DecodeError:
        return
    nbfx.to_text(events)
    nbfx.to_elements(events)
