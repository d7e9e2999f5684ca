"""The process of impacket_peer.py, and what to ask it."""

import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

NAME = r"OS:.\private$\q"
PEER = Path(__file__).parent / "impacket_peer.py"
PATIENCE_S = 60.0
RECEIVE, PEEK_CURRENT, PEEK_NEXT = 0, 0x8000_0000, 0x8000_0001
LOOKUP_PEEK_CURRENT, LOOKUP_PEEK_NEXT, LOOKUP_PEEK_PREV = 0x4000_0010, 0x4000_0011, 0x4000_0012
LOOKUP_RECEIVE_CURRENT = 0x4000_0020
NACK, ACK = 1, 2
FOREVER = 0xFFFF_FFFF

Answer = dict[str, Any]


class Impacket:
    """The connections have names; an answer is a dictionary of fields, of a fault, or of a problem."""

    def __init__(self, python: Path) -> None:
        # impacket must not find Tiercel: it is there to know nothing of it.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(  # noqa: S603
            (str(python), str(PEER)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.stdout.close()

    def ask(self, do: str, on: str = "a", **arguments: object) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"do": do, "on": on, **arguments}).encode() + b"\n"
        self._process.stdin.write(line)
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        assert ready, f"no answer to {line[:200]!r}"
        answer: Answer = json.loads(self._process.stdout.readline())
        return answer

    def connect(self, port: int, on: str = "a", **options: object) -> Answer:
        return self.ask("connect", on, port=port, **options)

    def call(self, method: str, on: str = "a", **arguments: object) -> Answer:
        return self.ask("call", on, method=method, arguments=arguments)

    def begin(self, method: str, on: str = "a", **arguments: object) -> int:
        return int(self.ask("begin", on, method=method, arguments=arguments)["call"])

    def answer(self, on: str = "a") -> Answer:
        return self.ask("answer", on)

    def open(
        self, name: str = NAME, on: str = "a", *, access: int = 1, share: int = 0, kind: int = 3
    ) -> Answer:
        return self.call("open_queue", on, **opening(name, access, share, kind))

    def receive(self, handle: str, request: int, on: str = "a", **arguments: int) -> Answer:
        return self.call("start_receive", on, **receiving(handle, request, **arguments))

    def end(self, handle: str, ack: int, request: int, on: str = "a") -> int:
        return int(self.call("end_receive", on, handle=handle, ack=ack, request=request)["status"])


def opening(name: str, access: int = 1, share: int = 0, kind: int = 3) -> dict[str, Any]:
    return {
        "format": {"type": kind, "value": name},
        "access": access,
        "share": share,
        "client": "11111111-2222-3333-4444-555555555555",
        "non_routing": 1,
        "major": 6,
        "minor": 1,
        "build": 7601,
        "workgroup": 1,
    }


def receiving(handle: str, request: int, **arguments: int) -> dict[str, Any]:
    usual = {
        "lookup": 0,
        "cursor": 0,
        "action": RECEIVE,
        "timeout": 0,
        "max_body": FOREVER,
        "max_compound": FOREVER,
    }
    return {"handle": handle, "request": request, **usual, **arguments}


def packet(answer: Answer) -> bytes:
    """All sections, one after the other."""
    return b"".join(bytes.fromhex(section["bytes"]) for section in answer["sections"])


def lookup_id(answer: Answer) -> int:
    """The reader puts the byte of the priority back on top: MQRR trap 15."""
    base_header_flags = int.from_bytes(packet(answer)[2:4], "little")
    return (7 - (base_header_flags & 7)) << 56 | int(answer["sequence"])
