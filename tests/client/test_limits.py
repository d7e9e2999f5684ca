"""The longest that fits and one more, counted as Windows counts: in UTF-16 units."""

# ruff: noqa: PT012  # what a block does before it raises is what is tested

from typing import Any

import pytest

import tiercel
from tiercel.model.limits import MAX_PACKET_SIZE

from .support import bodies, fill
from .test_message_properties import SETTABLE

FACE = "\N{GRINNING FACE}"  # outside the basic plane: two UTF-16 units


def of_length(units: int) -> list[str]:
    return ["x" * units, FACE * (units // 2) + "x" * (units % 2), "ß" * units]


class TestMessageLabels:
    @pytest.mark.parametrize("label", of_length(249))
    def test_249_fit(self, queue: tiercel.EmbeddedQueue, label: str) -> None:
        queue.send(tiercel.Message(label=label))
        assert queue.receive(0).label == label

    @pytest.mark.parametrize("label", of_length(250))
    @pytest.mark.parametrize("late", [False, True], ids=["made", "set"])
    def test_250_do_not(self, queue: tiercel.EmbeddedQueue, label: str, late: bool) -> None:
        with pytest.raises(tiercel.LabelTooLongError, match=r"present: 250, limit: 249") as raised:
            message = tiercel.Message(label="" if late else label)
            message.label = label
            queue.send(message)
        assert (raised.value.present, raised.value.limit) == (250, 249)
        assert queue.count == 0


class TestQueueLabels:
    @pytest.mark.parametrize("label", of_length(124))
    def test_124_fit(self, queue: tiercel.EmbeddedQueue, label: str) -> None:
        queue.set_properties(label=label)
        assert queue.label == label

    @pytest.mark.parametrize("label", of_length(125))
    def test_125_do_not(
        self, qm: tiercel.EmbeddedQueueManager, queue: tiercel.EmbeddedQueue, label: str
    ) -> None:
        queue.set_properties(label="before")
        with pytest.raises(tiercel.LabelTooLongError, match=r"present: 125, limit: 124"):
            queue.set_properties(label=label)
        with pytest.raises(tiercel.LabelTooLongError):
            qm.create_queue(r".\private$\new", label=label)
        assert queue.label == "before"
        assert len(qm.queues()) == 1


class TestQueueNames:
    @pytest.mark.parametrize("name", of_length(124))
    def test_124_fit(self, qm: tiercel.EmbeddedQueueManager, name: str) -> None:
        qm.create_queue(rf".\private$\{name}").send(b"x")
        assert qm.queue(rf".\private$\{name}").receive(0).body == b"x"

    @pytest.mark.parametrize("name", of_length(125))
    def test_125_do_not(self, qm: tiercel.EmbeddedQueueManager, name: str) -> None:
        for call in (qm.create_queue, qm.queue, qm.delete_queue):
            with pytest.raises(tiercel.IllegalQueuePathNameError, match=r"present: 125, limit: 124"):
                call(rf".\private$\{name}")
        assert qm.queues() == []


class TestSubqueueNames:
    @pytest.mark.parametrize("name", of_length(32))
    def test_32_fit(self, queue: tiercel.EmbeddedQueue, name: str) -> None:
        queue.move(fill(queue, b"x")[0], name)
        assert queue.subqueue(name).receive(0).body == b"x"

    @pytest.mark.parametrize("name", of_length(33))
    def test_33_do_not(self, queue: tiercel.EmbeddedQueue, name: str) -> None:
        [message] = fill(queue, b"x")
        with pytest.raises(tiercel.IllegalQueuePathNameError, match=r"present: 33, limit: 32"):
            queue.move(message, name)
        with pytest.raises(tiercel.IllegalQueuePathNameError):
            queue.subqueue(name)
        assert bodies(queue) == [b"x"]


class TestBodies:
    def test_the_largest_that_fits_and_one_more(self, queue: tiercel.EmbeddedQueue) -> None:
        queue.send(b"")
        overhead = queue.size_bytes
        queue.receive(0)
        largest = MAX_PACKET_SIZE - overhead
        queue.send(bytes(largest))
        assert queue.size_bytes == MAX_PACKET_SIZE
        assert len(queue.receive(0).body) == largest
        for size in (largest + 1, MAX_PACKET_SIZE, MAX_PACKET_SIZE + 1, 2 * MAX_PACKET_SIZE):
            message = tiercel.Message(bytes(size))
            with pytest.raises(tiercel.IllegalPropertySizeError, match="limit: 4194304"):
                queue.send(message)
        assert queue.count == queue.size_bytes == 0

    def test_in_a_transaction(
        self, qm: tiercel.EmbeddedQueueManager, transactional: tiercel.EmbeddedQueue
    ) -> None:
        with qm.transaction() as tx:
            with pytest.raises(tiercel.IllegalPropertySizeError):
                transactional.send(bytes(MAX_PACKET_SIZE + 1), transaction=tx)
            transactional.send(b"fits", transaction=tx)
        assert bodies(transactional) == [b"fits"]

    def test_extension_and_body_share_the_room(self, queue: tiercel.EmbeddedQueue) -> None:
        half = MAX_PACKET_SIZE // 2
        with pytest.raises(tiercel.IllegalPropertySizeError):
            queue.send(tiercel.Message(bytes(half), extension=bytes(half)))


WRONG: list[Any] = [None, -1, 2**70, 1.5, float("nan"), "x", b"x", [], [1], (1,), ("x",), {}, object()]
# A packet has room for these only when they say something; a value that is empty is none.
OPTIONAL = {
    "tracing_queue",
    "administration_queues",
    "response_queues",
    "destination_queues",
    "sender_id",
    "sender_certificate",
    "symmetric_key",
    "signature",
    "multiple_destination_signature",
    "authentication_provider_name",
}


def is_wrong(name: str, value: object) -> bool:
    default = getattr(tiercel.Message(), name)
    if default is None:
        return value is not None
    if name in OPTIONAL and not value:
        return False
    if isinstance(default, bool):
        return not isinstance(value, bool)
    if isinstance(default, int):
        return not isinstance(value, int) or not 0 <= value < 2**32
    if name.endswith("_queues"):
        return True  # also a tuple, when it holds no names
    if name == "correlation_id":
        return True  # none of them has its length
    return not isinstance(value, type(default))


@pytest.mark.parametrize("late", [False, True], ids=["made", "set"])
@pytest.mark.parametrize("name", SETTABLE)
def test_a_property_of_a_wrong_type_is_refused(queue: tiercel.EmbeddedQueue, name: str, late: bool) -> None:
    beside = SETTABLE[name][1]
    for value in WRONG:
        if not is_wrong(name, value):
            continue
        with pytest.raises(tiercel.MqError, match=f"{name}|list of queues"):
            message = tiercel.Message(**(beside if late else beside | {name: value}))
            setattr(message, name, value)
            queue.send(message)
        assert queue.count == 0, value


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("priority", 8, tiercel.IllegalPropertyValueError),
        ("delivery", 2, tiercel.IllegalPropertyValueError),
        ("acknowledgements", 16, tiercel.IllegalPropertyValueError),
        ("message_class", 0x10000, tiercel.IllegalPropertyValueError),
        ("body_type", 2**32, tiercel.IllegalPropertyValueError),
        ("application_tag", 2**32, tiercel.IllegalPropertyValueError),
        ("time_to_reach_queue", 2**32, tiercel.IllegalPropertyValueError),
        ("time_to_be_received", 2**32, tiercel.IllegalPropertyValueError),
        ("sender_id_type", 3, tiercel.IllegalPropertyValueError),
        ("correlation_id", b"", tiercel.IllegalPropertySizeError),
        ("correlation_id", bytes(19), tiercel.IllegalPropertySizeError),
        ("correlation_id", bytes(21), tiercel.IllegalPropertySizeError),
        ("sender_id", bytes(65_536), tiercel.IllegalPropertySizeError),
        ("symmetric_key", bytes(65_536), tiercel.IllegalPropertySizeError),
        ("signature", bytes(65_536), tiercel.IllegalPropertySizeError),
        ("sender_certificate", bytes(65_536), tiercel.IllegalPropertySizeError),
    ],
)
def test_a_value_one_too_large(
    queue: tiercel.EmbeddedQueue, name: str, value: Any, error: type[tiercel.MqError]
) -> None:
    with pytest.raises(error, match=f"message {name}.*present: .*limit: "):
        queue.send(tiercel.Message(**SETTABLE[name][1] | {name: value}))
    assert queue.count == 0


@pytest.mark.parametrize("value", [bytearray(b"abc"), memoryview(b"abc"), memoryview(b"abcdefgh").cast("I")])
@pytest.mark.parametrize("name", ["body", "extension"])
def test_other_kinds_of_bytes_arrive_whole_or_not_at_all(
    queue: tiercel.EmbeddedQueue, name: str, value: Any
) -> None:
    try:
        queue.send(tiercel.Message(**{name: value}))
    except tiercel.IllegalPropertyVariantTypeError:
        assert queue.count == 0
    else:
        assert getattr(queue.receive(0), name) == bytes(value)
