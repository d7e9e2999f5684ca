import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tiercel.model.errors import IllegalQueuePathNameError
from tiercel.model.path_name import PathKind, PathName

PUBLIC, PRIVATE, SYSTEM = PathKind.PUBLIC, PathKind.PRIVATE, PathKind.SYSTEM
EXAMPLES = [
    (r"host\q", PathName("host", PUBLIC, "q"), r"host\q"),
    (r".\private$\q", PathName(".", PRIVATE, "q"), r".\private$\q"),
    (r"Host\PRIVATE$\Orders", PathName("Host", PRIVATE, "Orders"), r"Host\private$\Orders"),
    (r"host\System$;deadxact", PathName("host", SYSTEM, "deadxact"), r"host\system$;deadxact"),
    (r"host\q;retry", PathName("host", PUBLIC, "q", "retry"), r"host\q;retry"),
    (r"host\private$\q;retry", PathName("host", PRIVATE, "q", "retry"), r"host\private$\q;retry"),
    (r"host\q;journal", PathName("host", PUBLIC, "q", journal=True), r"host\q;JOURNAL"),
    (r"host\private$\q;Journal", PathName("host", PRIVATE, "q", journal=True), r"host\private$\q;JOURNAL"),
    (r"host\q\Journal$", PathName("host", PUBLIC, "q", journal=True), r"host\q;JOURNAL"),
    (r"host\private$\q\journal$", PathName("host", PRIVATE, "q", journal=True), r"host\private$\q;JOURNAL"),
    (r"host\Journal$", PathName("host", SYSTEM, "JOURNAL"), r"host\system$;JOURNAL"),
    (r"host\Deadletter$", PathName("host", SYSTEM, "DEADLETTER"), r"host\system$;DEADLETTER"),
    (r".\XactDeadletter$", PathName(".", SYSTEM, "DEADXACT"), r".\system$;DEADXACT"),
    (r"host\order queue/4", PathName("host", PUBLIC, "order queue/4"), r"host\order queue/4"),
    ("b\u00fccher\\private$\\\u6ce8\u6587", PathName("b\u00fccher", PRIVATE, "\u6ce8\u6587"), None),
    ("host\\" + "q" * 124 + ";" + "s" * 32, PathName("host", PUBLIC, "q" * 124, "s" * 32), None),
    ("h" * 256 + "\\q", PathName("h" * 256, PUBLIC, "q"), None),
]
ILLEGAL = [
    ("", "computer name is empty"),
    ("host", "queue name is empty"),
    ("host\\", "queue name is empty"),
    (r"\q", "computer name is empty"),
    (r"\private$\q", "computer name is empty"),
    ("host\\   ", "queue name is empty"),
    (r"host\private$", "queue name is empty"),
    (r"host\private$;JOURNAL", "private$ is not a queue name"),
    ("host\\private$\\", "queue name is empty"),
    (r"host\system$", "queue name is empty"),
    (r"host\system$\q", r"queue name holds the character '\\'"),
    (r"host\system$;a;b", "queue name holds the character ';'"),
    (r"host\a\b", r"queue name holds the character '\\'"),
    (r"host\private$\a\b", r"queue name holds the character '\\'"),
    (r"host\q\Deadletter$", r"queue name holds the character '\\'"),
    (r"host\private$\Journal$", "private$ is not a queue name"),
    (r"host\private$\deadletter$", "deadletter$ is not a queue name"),
    (r"host\q;", "subqueue name is empty"),
    (r"host\q;a;b", "subqueue name holds the character ';'"),
    (r"host\q;sub\Journal$", "subqueue name holds the character ';'"),
    (r"host\a+b", "queue name holds the character '+'"),
    (r"host\a,b", "queue name holds the character ','"),
    ('host\\a"b', "queue name holds the character '\"'"),
    ("host\\a\tb", r"queue name holds the character '\t'"),
    ("host\\a\x00", r"queue name holds the character '\x00'"),
    ("host\\a\x85b", r"queue name holds the character '\x85'"),
    ("host\\a\ud800", r"queue name holds the character '\ud800'"),
    ("ho st\\q", "computer name holds the character ' '"),
    ("ho/st\\q", "computer name holds the character '/'"),
    ("h" * 257 + "\\q", "computer name is too long (present: 257, limit: 256)"),
    ("h\\" + "q" * 125, "queue name is too long (present: 125, limit: 124)"),
    ("h\\" + "\U0001f984" * 63, "queue name is too long (present: 126, limit: 124)"),
    ("h\\q;" + "s" * 33, "subqueue name is too long (present: 33, limit: 32)"),
    ("h" * 1_000_000, "computer name is too long (present: 1000000, limit: 256)"),
    ("h\\" + "\\;" * 1_000_000, r"queue name holds the character '\\'"),
]

computers = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters='\\/;,"'), min_size=1, max_size=40
)
queues = st.text(
    st.characters(exclude_categories=["C"], exclude_characters='\\;+,"'), min_size=1, max_size=40
).filter(str.strip)
named = queues.filter(lambda name: not name.endswith("$"))
subqueues = st.text("Retry-1_.", min_size=1, max_size=32)
path_names = (
    st.builds(PathName, computers, st.sampled_from(PathKind), named)
    | st.builds(PathName, computers, st.sampled_from([PUBLIC, PRIVATE]), named, subqueues)
    | st.builds(PathName, computers, st.sampled_from([PUBLIC, PRIVATE]), named, journal=st.just(value=True))
)
almost_path_names = st.lists(
    st.sampled_from(
        ["host", ".", "\\", "private$", "system$", ";", "JOURNAL", "Journal$", "q", " ", "\n", ","]
    )
).map("".join)


@pytest.mark.parametrize(("text", "path", "printed"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_example(text: str, path: PathName, printed: str | None) -> None:
    assert PathName.parse(text) == path
    assert str(PathName.parse(text)) == (printed or text)


@pytest.mark.parametrize(("text", "problem"), ILLEGAL, ids=range(len(ILLEGAL)))
def test_illegal(text: str, problem: str) -> None:
    with pytest.raises(IllegalQueuePathNameError) as caught:
        PathName.parse(text)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()


@given(path_names)
def test_every_path_name_is_read_back_from_its_text(path: PathName) -> None:
    assert PathName.parse(str(path)) == path
    assert PathName.parse(str(path).casefold()) == path


@given(st.text() | almost_path_names)
@example("\u017fystem$")
@example("h\\\u017fystem$;JOURNAL")
def test_any_text_gives_a_path_name_or_the_one_error(text: str) -> None:
    try:
        path = PathName.parse(text)
    except IllegalQueuePathNameError:
        return
    assert PathName.parse(str(path)) == path


def test_case_does_not_tell_names_apart() -> None:
    one, other = PathName.parse("HOST\\Private$\\Stra\u00dfe"), PathName.parse(r"host\private$\STRASSE")
    assert one == other
    assert len({one, other}) == 1
    assert one != PathName.parse(r"host\strasse")
    assert one != str(one)


def test_a_keyword_that_only_casefolds_to_one_is_that_keyword() -> None:
    assert PathName.parse("h\\\u017fystem$;JOURNAL").kind is SYSTEM


@pytest.mark.parametrize(
    ("kind", "queue", "subqueue", "journal"),
    [
        (PUBLIC, "Private$", None, False),
        (PUBLIC, "Journal$", None, False),
        (PUBLIC, "q", "Journal", False),
        (PUBLIC, "q", "", False),
        (PUBLIC, "q", "retry", True),
        (SYSTEM, "JOURNAL", "retry", False),
        (SYSTEM, "JOURNAL", None, True),
    ],
)
def test_parts_that_would_print_as_another_name(
    kind: PathKind, queue: str, subqueue: str | None, journal: bool
) -> None:
    with pytest.raises(IllegalQueuePathNameError):
        PathName("host", kind, queue, subqueue, journal)


@pytest.mark.parametrize(
    ("text", "qualified"),
    [
        (r"HOST\private$\q", r"host.domain\private$\q"),
        (r".\q;retry", r"host.domain\q;retry"),
        (r"host\Journal$", r"host.domain\system$;JOURNAL"),
    ],
)
def test_with_computer(text: str, qualified: str) -> None:
    assert str(PathName.parse(text).with_computer("host.domain")) == qualified


def test_with_computer_checks_the_computer() -> None:
    with pytest.raises(IllegalQueuePathNameError):
        PathName.parse(r"host\q").with_computer("other\\private$")


@pytest.mark.parametrize(
    ("text", "read_only"),
    [(r"h\q", False), (r"h\q;s", False), (r"h\q;JOURNAL", True), (r"h\Deadletter$", True)],
)
def test_read_only(text: str, read_only: bool) -> None:
    assert PathName.parse(text).is_read_only is read_only
