"""The process that decodes bodies: `python -m tiercel.api.decode_process`, started by `BodyDecoder`.

Its stdin brings bodies and is closed when its parent ends; its stdout returns each description as JSON.
"""

import json
import os
import resource
import sys
from contextlib import suppress
from typing import Final

from tiercel.api.decode_frames import ANSWER, QUESTION
from tiercel.bodies.description import describe

_MAX_MEMORY_BYTES: Final = 1 << 30
_MAX_ANSWER_BYTES: Final = 16 << 20  # the queue manager parses it
_NICE: Final = 5  # the queue manager has priority on a busy computer


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    with suppress(OSError):  # may be forbidden
        os.nice(_NICE)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(QUESTION.size):
        body_type, body_size, extension_size = QUESTION.unpack(head)
        body, extension = source.read(body_size), source.read(extension_size)
        answer = _described(body, body_type, extension)
        sink.write(ANSWER.pack(len(answer)) + answer)
        sink.flush()


def _described(body: bytes, body_type: int, extension: bytes) -> bytes:
    answer = json.dumps(describe(body, body_type, extension)).encode("ascii")
    if len(answer) <= _MAX_ANSWER_BYTES:
        return answer
    problem = f"not decoded: its text is larger than {_MAX_ANSWER_BYTES} bytes"
    return json.dumps({"kind": "binary", "text": None, "error": problem}).encode("ascii")


if __name__ == "__main__":
    main()
