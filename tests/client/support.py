"""What several tests of the library need."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Generic, TypeVar

import pytest

import tiercel
from tiercel import aio
from tiercel.model.properties import Properties

T = TypeVar("T")
RECOVERABLE = tiercel.DeliveryGuarantee.RECOVERABLE
PATIENCE_S = 60.0  # only a test that fails waits that long


class Running(Generic[T]):
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value.append(self._call())
        except BaseException as error:  # noqa: BLE001  # given to whoever asks for the result
            self._error = error

    @property
    def is_waiting(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> T:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the call still waits"
        if self._error is not None:
            raise self._error
        return self._value[0]


def waiting_on(queue: tiercel.EmbeddedQueue) -> int:
    """How many reads wait on a queue."""
    driver = queue.driver
    return driver.run(lambda: len(driver.engine.queues.get(queue.format_name).waiters))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.002)


def waiting(queue: tiercel.EmbeddedQueue, call: Callable[[], T], readers: int = 1) -> Running[T]:
    """Starts a read in a thread and returns when it waits."""
    running = Running(call)
    wait_until(lambda: waiting_on(queue) >= readers or not running.is_waiting)
    return running


def bodies(queue: tiercel.EmbeddedQueue) -> list[bytes]:
    """What is in a queue, without taking it."""
    cursor = queue.cursor()
    found = [message.body for message in cursor]
    cursor.close()
    return found


def fill(queue: tiercel.EmbeddedQueue, *texts: bytes) -> list[tiercel.Message]:
    """Sends these and gives them as they are in the queue, with their lookup ids."""
    for text in texts:
        queue.send(text)
    cursor = queue.cursor()
    found = list(cursor)
    cursor.close()
    return found


LABELLED: Final[Properties] = {"label": "order 7", "priority": 6, "time_to_be_received": timedelta(hours=1)}


def sent_with_properties(queue: tiercel.Queue) -> None:
    """They go with a text or bytes; a `Message` has its own."""
    number = queue.send("tea", label="order 7", priority=6, time_to_be_received=timedelta(hours=1))
    with pytest.raises(tiercel.errors.InvalidParameterError, match="a Message has its own label"):
        queue.send(tiercel.Message("tea"), label="order 7")
    with pytest.raises(TypeError, match="lable"):
        queue.send("tea", lable="order 7")  # type: ignore[call-arg]
    with pytest.raises(tiercel.errors.LabelTooLongError):
        queue.send("tea", label="x" * 300)
    check_labelled(queue.receive(60), number)


async def sent_with_properties_on_loop(queue: aio.Queue) -> None:
    number = await queue.send(b"tea", **LABELLED)
    with pytest.raises(tiercel.errors.InvalidParameterError, match="Set them on the Message"):
        await queue.send(tiercel.Message("tea"), label="order 7")
    check_labelled(await queue.receive(60), number)


def check_labelled(message: tiercel.Message, number: object) -> None:
    assert (message.text, message.label, message.priority) == ("tea", "order 7", 6)
    assert (message.is_received_within, message.id) == (timedelta(hours=1), number)
