"""Queue names as people write them."""

from uuid import UUID

import pytest

from tiercel.model.errors import MqError
from tiercel.model.format_name import DirectFormatName, FormatName
from tiercel.model.queue_name import (
    expand_queue_name,
    parse_new_queue_name,
    parse_queue_name,
    short_queue_name,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("orders", r"DIRECT=OS:.\private$\orders"),
        (r"private$\orders", r"DIRECT=OS:.\private$\orders"),
        (r"PRIVATE$\orders", r"DIRECT=OS:.\private$\orders"),
        (r".\private$\orders", r"DIRECT=OS:.\private$\orders"),
        (r"host\private$\orders", r"DIRECT=OS:host\private$\orders"),
        (r".\orders", r"DIRECT=OS:.\orders"),
        ("orders;sub", r"DIRECT=OS:.\private$\orders;sub"),
        ("orders;Journal", r"DIRECT=OS:.\private$\orders;JOURNAL"),
        (";journal", r"DIRECT=OS:.\system$;JOURNAL"),
        (";DeadLetter", r"DIRECT=OS:.\system$;DEADLETTER"),
        (";deadxact", r"DIRECT=OS:.\system$;DEADXACT"),
        ("system$;deadxact", r"DIRECT=OS:.\system$;deadxact"),
        (r"DIRECT=TCP:192.0.2.1\orders", r"DIRECT=TCP:192.0.2.1\orders"),
        ("DIRECT=HTTP://host/msmq/orders", "DIRECT=HTTP://host/msmq/orders"),
        (r"FormatName:DIRECT=OS:host\private$\orders", r"DIRECT=OS:host\private$\orders"),
        (r"formatname:direct=os:.\private$\orders;journal", r"DIRECT=OS:.\private$\orders;JOURNAL"),
        (r"FORMATNAME:DIRECT=OS:h\private$\orders;retry", r"DIRECT=OS:h\private$\orders;retry"),
        (f"FormatName:PUBLIC={UUID(int=5)}", f"PUBLIC={UUID(int=5)}"),
        (r"DIRECT=OS:a\q,DIRECT=OS:b\q", r"DIRECT=OS:a\q,DIRECT=OS:b\q"),
        (r"FormatName:DIRECT=OS:a\q,DIRECT=OS:b\q", r"DIRECT=OS:a\q,DIRECT=OS:b\q"),
        (r".\private$\orders\Journal$", r"DIRECT=OS:.\private$\orders;JOURNAL"),
        (r"private$\a=b", r"DIRECT=OS:.\private$\a=b"),
        (r"private$\a/b", r"DIRECT=OS:.\private$\a/b"),
        ("a=b", None),
        ("a/b", r"DIRECT=OS:.\private$\a/b"),
        ("http://host/msmq/orders", None),
        ("PRIVATE$/orders", None),
        (" ", None),
        ("\\", None),
        ("FormatName:", None),
        ("FormatName:orders", None),
        (r"FormatName:.\private$\orders", None),
        ("", None),
        ("a+b", None),
        (";nothing", None),
    ],
)
def test_means(text: str, name: str | None) -> None:
    if name is None:
        with pytest.raises(MqError):
            parse_queue_name(text)
    else:
        assert str(parse_queue_name(text)).casefold() == name.casefold()


def test_short_names_lead_back() -> None:
    for path in (
        r"HOST\private$\orders",
        r"HOST\orders",
        r"HOST\private$\orders;sub",
        r"HOST\system$;JOURNAL",
    ):
        again = str(parse_queue_name(short_queue_name(path)))
        assert again.partition("\\")[2] == path.partition("\\")[2]


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        ("", "it is empty", "use orders"),
        ("a=b", "does not begin with a keyword of a format name", r"write private$\name"),
        ("./private$/orders", "character '/'", "backslashes"),
        ("FormatName:orders", "does not begin with a keyword of a format name", "DIRECT="),
        (r"DIRECT=TCP:300.1.1.1\private$\q", "does not have a valid IP address", "correct the address"),
        (r"DIRECT=OS:10.0.0\private$\q", "does not have a valid IP address", "name of the computer"),
        (r"DIRECT=OS:h\q,DIRECT=HTTP://1.2.3.4.5:80/msmq/q", "does not have a valid IP address", "correct"),
    ],
)
def test_an_invalid_name_says_what_to_write(text: str, problem: str, fix: str) -> None:
    with pytest.raises(MqError) as caught:
        parse_queue_name(text)
    assert problem in caught.value.problem
    assert fix in caught.value.fix


@pytest.mark.parametrize("host", ["10.0.0.1", "server-1", "3.example", "1a.2b", "7"])
def test_an_address_that_may_be_one_is_taken(host: str) -> None:
    assert parse_queue_name(rf"DIRECT=TCP:{host}\private$\q") == FormatName.parse(
        rf"DIRECT=TCP:{host}\private$\q"
    )


def test_a_packet_may_name_any_address() -> None:
    assert DirectFormatName.from_wire(r"TCP:300.1.1.1\private$\q").host == "300.1.1.1"


def test_a_new_queue_has_a_path_name() -> None:
    for text in ("orders", r"private$\orders", r"FormatName:DIRECT=OS:.\private$\orders"):
        assert str(parse_new_queue_name(text)) == r".\private$\orders"
    with pytest.raises(MqError, match="not the path name of a queue"):
        parse_new_queue_name(f"PUBLIC={UUID(int=5)}")


def test_expanding_twice_changes_nothing() -> None:
    for text in ("orders", "orders;retry", ";journal", r"host\q", r"FormatName:DIRECT=OS:h\q"):
        full = expand_queue_name(text)
        assert expand_queue_name(full) == full
        assert parse_queue_name(full) == parse_queue_name(text)
