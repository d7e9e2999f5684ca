"""A stand-in for a queue manager that notes what the machines ask of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID, uuid4

from tiercel.framing.requests import (
    CreateTransaction,
    Dequeue,
    Enqueue,
    Hold,
    OpenQueue,
    ReadDirectory,
    Request,
    Steps,
)
from tiercel.model.errors import IoTimeoutError
from tiercel.model.message import Message

T = TypeVar("T")


@dataclass
class Spy:
    failures: dict[type, Exception] = field(default_factory=dict)  # by the class of the request
    queued: list[Message] = field(default_factory=list)
    asked: list[Request] = field(default_factory=list)
    directory: dict[str, UUID] = field(default_factory=dict)

    def run(self, steps: Steps[T]) -> T:
        answer: Callable[[], Request] = lambda: next(steps)  # noqa: E731 - replaced below
        while True:
            try:
                request = answer()
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            self.asked.append(request)
            failure = self.failures.get(type(request))
            if failure is None:
                result = self.answer(request)
                answer = lambda result=result: steps.send(result)  # type: ignore[misc]  # noqa: E731
            else:
                answer = lambda failure=failure: steps.throw(failure)  # type: ignore[misc]  # noqa: E731

    def answer(self, request: Request) -> Any:
        match request:
            case OpenQueue():
                return "the queue"
            case CreateTransaction():
                return uuid4()
            case Hold():
                return "held"
            case ReadDirectory(path=path):
                return self.directory[str(path)]
            case Enqueue(message=message):
                self.queued.append(message)
            case Dequeue():
                if not self.queued:
                    raise IoTimeoutError("the queue")
                return self.queued.pop(0)
            case _:
                pass
        return None

    def of(self, kind: type[T]) -> list[T]:
        return [request for request in self.asked if isinstance(request, kind)]
