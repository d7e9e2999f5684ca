"""Every public call with wrong arguments: its own error, which names the thing, and nothing changed."""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import tiercel

from .support import bodies, waiting_on

Call = Callable[["World", Any], object]

NO_TEXT = [None, 0, 5, -1, 2**70, True, 1.5, float("nan"), b"x", [], {}, object()]
BAD_TEXT = ["\ud800", "a\0b", "x" * 70_000]
NO_NUMBER = ["", "5", b"5", 1.5, float("nan"), [], {}, object()]
NO_FLAG = [None, 0, 1, 2, "", "yes", b"x", [], object()]
NO_TIMEOUT = ["", "5", b"5", True, False, [], {}, object()]
NO_TRANSACTION = [5, "x", b"x", True, 1.5, [], {}, object()]
NO_SEEK = [None, 0, 5, "sideways", b"x", True, [], object()]
NO_LOOKUP_ID = [True, False, *NO_NUMBER]
OUT_OF_64_BITS = [-1, -(2**63), 2**64, 2**70]
NO_PATH = [
    "",
    " ",
    "\\",
    "private$/orders",
    "FormatName:orders",
    r".\private$",
    r".\private$" + "\\",
    r".\private$\a\b",
    r".\private$\a;",
    "./private$/orders",
    ".\\private$\\a\nb",
    ".\\private$\\a,b",
    r".\private$\a;b;c",
    r"two words\private$\a",
    *BAD_TEXT,
]
NO_FORMAT_NAME = [
    "DIRECT=",
    "DIRECT=OS:",
    "DIRECT=XX:a\\b",
    "PRIVATE=5",
    "PUBLIC=",
    "=",
    "X=5",
    "DIRECT=OS:a\\b,",
    "DL=x",
]


class World:
    """A queue manager with something in it, and a way to see whether anything has changed."""

    def __init__(self, qm: tiercel.EmbeddedQueueManager) -> None:
        self.qm = qm
        self.queue = qm.create_queue(r".\private$\plain", label="plain")
        self.transactional = qm.create_queue(r".\private$\transactional", transactional=True)
        self.queue.send(tiercel.Message(b"1", label="one"))
        self.queue.send(b"2")
        self.first = self.queue.peek(0)

    def state(self) -> object:
        return (
            [(each.path_name, each.count, each.size_bytes, each.label) for each in self.qm.queues()],
            bodies(self.queue),
            waiting_on(self.queue),
            list(self.qm.driver.engine.queues.get(self.queue.format_name).subqueues),
            self.qm.discards(),
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with tiercel.open(tmp_path_factory.mktemp("bad input") / "data", computer_name="TEST") as qm:
        yield World(qm)


def create_with(name: str) -> Call:
    return lambda world, value: world.qm.create_queue(r".\private$\new", **{name: value})


def set_to(name: str) -> Call:
    return lambda world, value: world.queue.set_properties(**{name: value})


WRONG_TYPE = tiercel.IllegalPropertyVariantTypeError
WRONG_VALUE = (tiercel.IllegalPropertyValueError, tiercel.InvalidParameterError)
WRONG_NAME = (tiercel.IllegalQueuePathNameError, tiercel.IllegalFormatNameError)
NOT_FOUND = tiercel.MessageNotFoundError

Errors = type[Exception] | tuple[type[Exception], ...]
PROPERTIES: list[tuple[str, list[Any], Errors]] = [
    ("label", NO_TEXT, WRONG_TYPE),
    ("label", ["x" * 125, "\N{GRINNING FACE}" * 63], tiercel.LabelTooLongError),
    ("quota_kib", [None, True, *NO_NUMBER], WRONG_TYPE),
    ("quota_kib", [-1, 2**32, 2**70], WRONG_VALUE),
    ("journal_quota_kib", [None, True, *NO_NUMBER], WRONG_TYPE),
    ("journal_quota_kib", [-1, 2**32, 2**70], WRONG_VALUE),
    ("base_priority", [None, True, *NO_NUMBER], WRONG_TYPE),
    ("base_priority", [-0x8001, 0x8000, 2**70], WRONG_VALUE),
    ("journaling", NO_FLAG, WRONG_TYPE),
    ("authentication", NO_FLAG, WRONG_TYPE),
    ("type", [None, 5, "x", b"x" * 16, object()], WRONG_TYPE),
    ("privacy_level", [None, "x", 1.5, object()], WRONG_TYPE),
    ("privacy_level", [-1, 3, 99], (WRONG_TYPE, *WRONG_VALUE)),
    ("multicast_address", [5, b"x", object()], WRONG_TYPE),
    ("multicast_address", ["", "x", "192.0.2.1:8001", "224.1.1.1", "224.1.1.1:99999"], WRONG_VALUE),
    ("security", [5, "x", object()], WRONG_TYPE),
    ("nonsense", [1], tiercel.PropertyNotAllowedError),
    ("pathname", [r".\private$\b"], tiercel.PropertyNotAllowedError),
    ("identifier", [5], tiercel.PropertyNotAllowedError),
]
CASES: list[tuple[str, Call, list[Any], Errors]] = [
    ("create_queue(path)", lambda w, v: w.qm.create_queue(v), NO_TEXT, WRONG_TYPE),
    ("create_queue(path)", lambda w, v: w.qm.create_queue(v), NO_PATH, WRONG_NAME),
    ("delete_queue(path)", lambda w, v: w.qm.delete_queue(v), NO_TEXT, WRONG_TYPE),
    ("delete_queue(path)", lambda w, v: w.qm.delete_queue(v), NO_PATH + NO_FORMAT_NAME, WRONG_NAME),
    ("queue(name)", lambda w, v: w.qm.queue(v), NO_TEXT, WRONG_TYPE),
    ("queue(name)", lambda w, v: w.qm.queue(v), NO_PATH + NO_FORMAT_NAME, WRONG_NAME),
    ("subqueue(name)", lambda w, v: w.queue.subqueue(v), NO_TEXT, WRONG_TYPE),
    ("subqueue(name)", lambda w, v: w.queue.subqueue(v), ["", " ", "a;b", "a\\b", *BAD_TEXT], WRONG_NAME),
    *[
        (f"{label}({name})", make(name), values, error)
        for (label, make), (name, values, error) in product(
            [("create_queue", create_with), ("set_properties", set_to)],
            PROPERTIES,
        )
    ],
    ("create_queue(transactional)", create_with("transactional"), NO_FLAG, WRONG_TYPE),
    ("set_properties(transactional)", set_to("transactional"), [True], tiercel.PropertyNotAllowedError),
    (
        "send(message)",
        lambda w, v: w.queue.send(v),
        [None, 5, bytearray(b"x"), 1.5, [], {}, object()],
        WRONG_TYPE,
    ),
    (
        "send(transaction)",
        lambda w, v: w.transactional.send(b"x", transaction=v),
        NO_TRANSACTION,
        tiercel.InvalidParameterError,
    ),
    ("receive(timeout)", lambda w, v: w.queue.receive(v), NO_TIMEOUT, WRONG_TYPE),
    ("receive(timeout)", lambda w, v: w.queue.receive(v), [-1, -0.1, float("nan")], WRONG_VALUE),
    ("peek(timeout)", lambda w, v: w.queue.peek(v), NO_TIMEOUT, WRONG_TYPE),
    ("peek(timeout)", lambda w, v: w.queue.peek(v), [-1, -0.1, float("nan")], WRONG_VALUE),
    ("receiving(timeout)", lambda w, v: w.queue.receiving(v).__enter__(), NO_TIMEOUT, WRONG_TYPE),
    ("receiving(timeout)", lambda w, v: w.queue.receiving(v).__enter__(), [-1, float("nan")], WRONG_VALUE),
    ("cursor.peek(timeout)", lambda w, v: w.queue.cursor().peek(v), [*NO_TIMEOUT], WRONG_TYPE),
    ("cursor.receive(timeout)", lambda w, v: w.queue.cursor().receive(v), [*NO_TIMEOUT], WRONG_TYPE),
    ("cursor.receive(timeout)", lambda w, v: w.queue.cursor().receive(v), [-1, float("nan")], WRONG_VALUE),
    ("receive(lookup_id)", lambda w, v: w.queue.receive(lookup_id=v), NO_LOOKUP_ID, WRONG_TYPE),
    ("peek(lookup_id)", lambda w, v: w.queue.peek(lookup_id=v), NO_LOOKUP_ID, WRONG_TYPE),
    (
        "receive(lookup_id)",
        lambda w, v: w.queue.receive(lookup_id=v),
        [0, 1, 2**63, *OUT_OF_64_BITS],
        (NOT_FOUND, *WRONG_VALUE),
    ),
    (
        "receive(seek)",
        lambda w, v: w.queue.receive(lookup_id=w.first.lookup_id, seek=v),
        NO_SEEK,
        (WRONG_TYPE, *WRONG_VALUE),
    ),
    (
        "peek(seek)",
        lambda w, v: w.queue.peek(lookup_id=w.first.lookup_id, seek=v),
        NO_SEEK,
        (WRONG_TYPE, *WRONG_VALUE),
    ),
    (
        "receive(transaction)",
        lambda w, v: w.transactional.receive(0, transaction=v),
        NO_TRANSACTION,
        tiercel.InvalidParameterError,
    ),
    (
        "cursor.receive(transaction)",
        lambda w, v: w.transactional.cursor().receive(0, transaction=v),
        NO_TRANSACTION,
        tiercel.InvalidParameterError,
    ),
    ("move(message)", lambda w, v: w.queue.move(v, "retry"), [None, *NO_LOOKUP_ID], WRONG_TYPE),
    (
        "move(message)",
        lambda w, v: w.queue.move(v, "retry"),
        [0, 1, *OUT_OF_64_BITS],
        (NOT_FOUND, *WRONG_VALUE),
    ),
    ("move(message)", lambda w, _: w.queue.move(tiercel.Message(b"x"), "retry"), ["never sent"], NOT_FOUND),
    ("move(subqueue)", lambda w, v: w.queue.move(w.first, v), NO_TEXT[1:], WRONG_TYPE),
    ("move(subqueue)", lambda w, v: w.queue.move(w.first, v), ["", "a;b", "x" * 33, *BAD_TEXT], WRONG_NAME),
    (
        "move(transaction)",
        lambda w, v: w.queue.move(w.first, "retry", transaction=v),
        NO_TRANSACTION,
        tiercel.InvalidParameterError,
    ),
]


def short(value: object) -> str:
    return ascii(value)[:24] if "object at" not in repr(value) else "object()"


@pytest.mark.parametrize(
    ("call", "value", "error"),
    [
        pytest.param(call, value, error, id=f"{name}-{short(value)}")
        for name, call, values, error in CASES
        for value in values
    ],
)
def test_wrong_argument(world: World, call: Call, value: Any, error: Errors) -> None:
    before = world.state()
    with pytest.raises(error) as raised:
        call(world, value)
    assert isinstance(raised.value, tiercel.MqError)
    text = str(raised.value)
    assert text.isprintable() or "\\n" in ascii(text), "a terminal would act on it"
    assert len(text) < 1000, "it repeats what was passed, however long"
    assert world.state() == before


class TestOpen:
    @pytest.mark.parametrize("value", [None, 5, True, 1.5, b"x", [], object()], ids=short)
    def test_directory_type(self, value: Any) -> None:
        with pytest.raises(tiercel.MqError, match="directory"):
            tiercel.open(value)

    @pytest.mark.parametrize("value", ["a\0b", "\ud800", "x" * 300], ids=short)
    def test_directory_name(self, tmp_path: Path, value: str) -> None:
        with pytest.raises(tiercel.MqError):
            tiercel.open(f"{tmp_path}/{value}")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *[("computer_name", value) for value in (5, True, b"x", [1], "a b", "a\\b", "a\0b", "\ud800")],
            *[("max_bytes", value) for value in (None, "x", True, 1.5, float("nan"), 0, -1, 5, 2**64, 2**70)],
            *[("clock", value) for value in (None, 5, "now")],
        ],
        ids=short,
    )
    def test_options(self, directory: Path, name: str, value: Any) -> None:
        with pytest.raises(tiercel.MqError):
            tiercel.open(directory, **{name: value})
        tiercel.open(directory).close()


class TestReadOnlyQueues:
    def test_nothing_can_be_sent_to_them(self, world: World) -> None:
        qm, before = world.qm, world.state()
        for queue in (qm.journal, qm.dead_letters, qm.transactional_dead_letters, world.queue.journal):
            with pytest.raises(tiercel.UnsupportedFormatNameOperationError, match="only the queue manager"):
                queue.send(b"x")
            with pytest.raises(tiercel.IllegalOperationError):
                queue.delete()
        assert world.state() == before

    def test_nor_to_a_subqueue(self, world: World) -> None:
        with pytest.raises(tiercel.UnsupportedFormatNameOperationError, match="Send to the queue itself"):
            world.queue.subqueue("retry").send(b"x")

    @pytest.mark.parametrize(
        "name", [r".\system$;x", r".\private$\a;JOURNAL", r".\private$\a;b", r".\journal$"]
    )
    def test_nor_can_they_be_created(self, world: World, name: str) -> None:
        with pytest.raises(tiercel.IllegalQueuePathNameError):
            world.qm.create_queue(name)


class TestQueuesThatAreNot:
    def test_a_second_of_the_same_name(self, world: World) -> None:
        before = world.state()
        for name in (r".\private$\plain", r".\PRIVATE$\Plain", r"TEST\private$\plain"):
            with pytest.raises(tiercel.QueueExistsError, match=r"(?i)plain"):
                world.qm.create_queue(name, label="other")
        assert world.state() == before

    def test_unknown_ones(self, world: World) -> None:
        for call in (world.qm.queue, world.qm.delete_queue):
            with pytest.raises(tiercel.QueueNotFoundError, match="nowhere"):
                call(r".\private$\nowhere")

    def test_on_another_computer(self, world: World) -> None:
        with pytest.raises(tiercel.IllegalQueuePathNameError, match=r"Use \. as the computer"):
            world.qm.create_queue(r"elsewhere\private$\q")
        remote = world.qm.queue(r"elsewhere\private$\q")
        for call in (lambda: remote.receive(0), lambda: remote.peek(0), remote.cursor, remote.purge):
            with pytest.raises(tiercel.MqError, match="elsewhere"):
                call()

    def test_deleted_ones(self, world: World) -> None:
        queue = world.qm.create_queue(r".\private$\short lived")
        queue.send(b"x")
        message, cursor = queue.peek(0), queue.cursor()
        queue.delete()
        gone = (tiercel.QueueNotAvailableError, tiercel.QueueNotFoundError, tiercel.QueueDeletedError)
        for call in (
            lambda: queue.send(b"y"),
            lambda: queue.receive(0),
            lambda: queue.peek(0),
            lambda: queue.receiving(0).__enter__(),
            lambda: queue.receive(lookup_id=message.lookup_id),
            lambda: queue.move(message, "retry"),
            lambda: queue.set_properties(label="x"),
            lambda: queue.count,
            lambda: queue.label,
            lambda: queue.journal,
            queue.cursor,
            queue.purge,
            queue.delete,
            cursor.peek,
            cursor.receive,
        ):
            with pytest.raises(gone, match="short lived"):
                call()
        cursor.close()
        queue.close()
