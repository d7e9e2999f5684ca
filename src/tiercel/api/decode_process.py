"""The process that decodes bodies: `python -m tiercel.api.decode_process`, started by `BodyDecoder`."""

import json
from typing import Final

from tiercel.api.child_process import serve
from tiercel.api.decode_frames import QUESTION
from tiercel.bodies.description import describe

_MAX_ANSWER_BYTES: Final = 16 << 20  # the queue manager parses it


def described(question: bytes) -> bytes:
    body_type, body_size = QUESTION.unpack_from(question)
    end = QUESTION.size + body_size
    answer = json.dumps(describe(question[QUESTION.size : end], body_type, question[end:])).encode("ascii")
    if len(answer) <= _MAX_ANSWER_BYTES:
        return answer
    problem = f"not decoded: its text is larger than {_MAX_ANSWER_BYTES} bytes"
    return json.dumps({"kind": "binary", "text": None, "error": problem}).encode("ascii")


if __name__ == "__main__":
    serve(described)
