r"""Filters: `label:"order 7" priority>=5`."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.admin.message_filter import (
    MAX_FILTER,
    MAX_TERMS,
    Candidate,
    FilterError,
    filter_of,
    parse_filter,
)
from tiercel.model.codes import MessageClass
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.wire.message import encode_message

GUID = UUID("05ede9a5-4f1b-4b0f-9d6c-0c5d6f1f2b11")
NOW = 1_700_000_000
MESSAGE = Message(
    b'{"total": 120.5, "name": "Smith", "lines": [{"sku": "A-7"}], "paid": true, "none": null}',
    label="Order 7 of May",
    priority=5,
    id=MessageId(GUID, 7),
)


GOAL = FormatName.parse(r"DIRECT=OS:host\private$\q")


def packet_of(message: Message) -> bytes:
    message.destination_queue = GOAL
    return encode_message(message)


def is_found(text: str, message: Message = MESSAGE, *, age: int = 7200, reason: int = 0) -> bool:
    candidate = Candidate(packet_of(message), NOW - age, reason, NOW)
    return parse_filter(text).matches(candidate)


@pytest.mark.parametrize(
    "text",
    [
        'label:"order 7"',
        "label:ORDER",
        "priority>=5",
        "priority:5",
        "priority=5",
        "priority<6",
        "age>1h",
        "age>=2h",
        "age<1d",
        "age!=1w",
        "age:7200",
        "size>80",
        "size<1k",
        "size<0.5m",
        "body:smith",
        'body:"total\\": 120"',
        "json.total>100",
        "json.total<=120.5",
        "json.name=smith",
        "json.name:mit",
        "json.lines.0.sku:a-7",
        "json.paid:true",
        "json.none:null",
        "class:normal",
        "class:nor*",
        rf"id:{{{GUID}}}\7",
        rf"id:{{{str(GUID).upper()}}}\7",
        "smith",
        "MAY",
        '"7 of"',
        r"destination:private$\Q",
        r"destination=direct=os:HOST\private$\q",
        r'destination!="DIRECT=OS:host\\private$\\Q2"',
        "reason:none",
        "-label:june",
        "-smyth",
        "-json.nothing>5",
        "order smith priority>4 -age<1h",
        "  smith  ",
    ],
)
def test_it_matches(text: str) -> None:
    assert is_found(text)


@pytest.mark.parametrize("text", ["smith", 'label:"order 7"', "priority>=5", "json.total>100", "class:nor*"])
def test_minus_negates(text: str) -> None:
    assert not is_found(f"-{text}")


@pytest.mark.parametrize(
    "text",
    [
        "label:8",
        "label:smith",  # it is in the body
        "body:may",  # it is in the label
        "priority>5",
        "priority!=5",
        "age>1d",
        "size>10k",
        "json.total>200",
        "json.name>zorro",
        "json.lines.1.sku:a",
        "json.lines.sku:a",
        "json.nothing:a",
        "class:nack*",
        "reason:nack*",
        "reason:normal",
        r"destination=private$\q",
        r"destination!=DIRECT=OS:HOST\private$\q",
        rf"id:{{{GUID}}}\8",
        "order -smith",
        "smith label:june",
    ],
)
def test_it_does_not_match(text: str) -> None:
    assert not is_found(text)


def test_the_class_of_a_dead_letter_is_its_reason() -> None:
    reason = int(MessageClass.NACK_BAD_DST_Q)
    assert is_found("class:nack*", reason=reason)
    assert is_found("class:nack_bad_dst_q class:normal", reason=reason)


@pytest.mark.parametrize("reason", [0, int(MessageClass.NACK_BAD_DST_Q), 0x8765])
@pytest.mark.parametrize(
    "goal",
    [r"DIRECT=OS:host\private$\q", r"DIRECT=OS:host\private$\two words", r"DIRECT=OS:host\private$\a'b"],
)
def test_a_group_of_dead_letters_has_its_filter(reason: int, goal: str) -> None:
    others = [(reason ^ 1, goal), (reason, f"{goal}2")]
    text = filter_of(reason, goal)
    assert text is not None

    def found(code: int, name: str) -> bool:
        message = Message(id=MESSAGE.id, destination_queue=FormatName.parse(name))
        return parse_filter(text).matches(Candidate(encode_message(message), NOW, code, NOW))

    assert (found(reason, goal), [found(*each) for each in others]) == (True, [False, False])


def test_a_filter_that_would_be_too_long_is_none() -> None:
    assert filter_of(1, "x" * MAX_FILTER) is None


def test_names_that_are_escaped_in_json() -> None:
    assert is_found("json.total>0", Message(b'{"tot\\u0061l": 1}'))


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[" * 5000, b"\xff\xfe\x00", b'{"a": NaN}'])
def test_bodies_that_are_not_json(body: bytes) -> None:
    assert not is_found("json.total>0", Message(body))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        ("   ", "it is empty"),
        ('label:"open', "close its quotes"),
        ('"a"b', "close its quotes"),
        ("label>5", "label> is not possible; write label:5"),
        ("priority>high", "write a number"),
        ("size>10x", "with one of the units k, m, g"),
        ("age>1y", "with one of the units s, m, h, d, w"),
        ("id:7", "is not a valid message id"),
        ("x " * (MAX_TERMS + 1), f"more than {MAX_TERMS} terms"),
        ("x" * (MAX_FILTER + 1), f"the limit is {MAX_FILTER}"),
        ("json" + ".a" * 33 + ":1", "more than 32 names"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(FilterError, match=problem.replace(".", r"\.")):
        parse_filter(text)


def test_words_may_be_a_regular_expression() -> None:
    assert not parse_filter("customer.*smith").has_fields
    assert parse_filter("customer label:smith").has_fields


def test_headers_are_compared_before_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the body was decoded")

    monkeypatch.setattr("tiercel.admin.message_filter.body_texts", fail)
    assert not is_found("smith priority>5")
    with pytest.raises(AssertionError, match="decoded"):
        is_found("nowhere priority=5")


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    try:
        wanted = parse_filter(text)
    except FilterError:
        return
    wanted.matches(Candidate(packet_of(MESSAGE), NOW, 0, NOW))


@given(st.text(min_size=1, max_size=20).filter(lambda text: not set(text) & set('"\\')))
def test_quoted_text_is_found_as_it_is(text: str) -> None:
    message = Message(text.encode("utf-8", "replace"), label="")
    found = Candidate(packet_of(message), NOW, 0, NOW)
    if text.casefold() in found.text:
        assert parse_filter(f'body:"{text}"').matches(found)
