"""The process that searches messages, started by `MessageSearcher`."""

import json
import re
import signal
import struct
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType
from typing import Any, Final

from tiercel.api.child_process import serve
from tiercel.api.message_matcher import MessageMatcher
from tiercel.model.errors import DecodeError

_SIZE: Final = struct.Struct("<I")
MESSAGE_S: Final = 0.5  # budget of one message: more than once this, less than twice


class _TooSlowError(Exception):
    pass


def question_of(pattern: str, ignore_case: bool, packets: list[bytes]) -> bytes:
    head = json.dumps([pattern, ignore_case]).encode()
    return b"".join(part for each in (head, *packets) for part in (_SIZE.pack(len(each)), each))


def _parts(question: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(question):
        (size,) = _SIZE.unpack_from(question, at)
        at += _SIZE.size
        yield question[at : at + size]
        at += size


@lru_cache(maxsize=8)
def _matcher(pattern: str, ignore_case: bool) -> MessageMatcher:
    return MessageMatcher(pattern, ignore_case=ignore_case)


class Search:
    """Searches packets; one on which the pattern or the decoder takes too long is skipped.

    The second tick of a timer during one message ends it: regular expressions check for signals.
    """

    def __init__(self) -> None:
        self._ticks = 0
        self._is_searching = False
        signal.signal(signal.SIGALRM, self._tick)

    def _tick(self, _signal: int, _frame: FrameType | None) -> None:
        self._ticks += 1
        if self._ticks > 1 and self._is_searching:
            raise _TooSlowError

    def answer(self, question: bytes) -> bytes:
        head, *packets = _parts(question)
        try:
            matcher = _matcher(*json.loads(head))
        except (re.error, OverflowError, RecursionError) as problem:
            return json.dumps({"error": str(problem) or type(problem).__name__}).encode()
        signal.setitimer(signal.ITIMER_REAL, MESSAGE_S, MESSAGE_S)
        try:
            return json.dumps(self._searched(matcher, packets)).encode()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _searched(self, matcher: MessageMatcher, packets: list[bytes]) -> dict[str, Any]:
        found, skipped = [], []
        for number, packet in enumerate(packets):
            try:
                self._ticks, self._is_searching = 0, True
                is_match = matcher.matches(packet)
                self._is_searching = False
            except (_TooSlowError, MemoryError, RecursionError, DecodeError):
                self._is_searching = False
                skipped.append(number)
            else:
                found += [number] if is_match else []
        return {"found": found, "skipped": skipped}


if __name__ == "__main__":
    serve(Search().answer)
