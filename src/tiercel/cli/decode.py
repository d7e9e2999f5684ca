"""`tiercel decode`: prints the packets of files and captures, field by field."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tiercel.cli.body import body_line, body_of, body_record
from tiercel.cli.packets import Contents, Found, Note, Place, Problem, read_contents, verify
from tiercel.model.errors import DecodeError
from tiercel.wire.capture import TCP_PORT, UDP_PORT
from tiercel.wire.dump import as_json, list_packet, render, summary

NAME = "decode"
HELP = "print packets readably, field by field"
DESCRIPTION = """\
Prints the MSMQ packets of each FILE: every structure, every field with its offset, size and meaning.

A FILE holds the raw bytes of packets, the same as hexadecimal text (plain, or a dump of xxd, hexdump -C,
od -A x -t x1 or tshark -x), or a pcap or pcapng capture, whose TCP streams are put together.
"""
EPILOG = """\
exit codes: 0 everything was decoded (and verified), 1 something was not, 2 wrong usage or an unreadable FILE
"""

FINE, FAILED, UNUSABLE = 0, 1, 2


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="what to decode; - is the standard input")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object per packet and line, for scripts")
    form.add_argument("--summary", action="store_true", help="one line per packet")
    parser.add_argument("--body", action="store_true", help="show bodies and other long fields whole")
    parser.add_argument(
        "--verify", action="store_true", help="encode each packet again and compare it byte by byte"
    )
    for name, port in ("tcp", TCP_PORT), ("udp", UDP_PORT):
        parser.add_argument(
            f"--{name}-port",
            type=_port,
            action="append",
            metavar="PORT",
            help=f"{name.upper()} port to look for in captures (default {port}); may be repeated",
        )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!a} is no port: give a number from 1 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    return max(_decode_file(name, arguments) for name in arguments.files)


def _decode_file(name: str, arguments: argparse.Namespace) -> int:
    printer = _Printer("standard input" if name == "-" else name, arguments)
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        printer.complain(error.strerror or str(error))
        return UNUSABLE
    try:
        contents = read_contents(data, arguments.tcp_port or [TCP_PORT], arguments.udp_port or [UDP_PORT])
    except DecodeError as error:
        printer.complain(f"this is no usable hexadecimal text: {error.problem}")
        return FAILED
    printer.print_contents(contents)
    return FAILED if printer.problems or not printer.packets else FINE


class _Printer:
    """Prints what one file holds: packets to the standard output, what is wrong to the standard error."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        self.packets = 0
        self.problems = 0
        self._name = name
        self._arguments = arguments
        self._is_json: bool = arguments.json
        self._stream: str | None = None

    def complain(self, text: str) -> None:
        # Without the flush a terminal shows the complaint before the packets that it follows.
        sys.stdout.flush()
        print(f"tiercel decode: {self._name}: {text}", file=sys.stderr)

    def print_contents(self, contents: Contents) -> None:
        self._print_text(f"{self._name}: {contents.kind}, {contents.size} bytes")
        for item in contents.items:
            match item:
                case Found():
                    self._print_found(item)
                case Problem():
                    self._print_problem(item)
                case Note(text):
                    self.complain(text)
        if self.packets == self.problems == 0:
            self.complain(f"nothing to decode in {contents.kind}, {contents.size} bytes")
        elif not self._arguments.summary:
            self._print_text("")
        self._print_text(self._result())

    def _result(self) -> str:
        words = [_plural(self.packets, "packet")]
        if self._arguments.verify and self.packets and not self.problems:
            words.append("verified: encoded again, every byte is the same")
        if self.problems:
            words.append(_plural(self.problems, "problem"))
        return ", ".join(words)

    def _print_text(self, text: str) -> None:
        if not self._is_json:
            print(text)

    def _print_found(self, found: Found) -> None:
        self.packets += 1
        line = summary(found.packet, len(found.data))
        difference = verify(found) if self._arguments.verify else None
        self._print_stream(found.place.stream)
        if self._is_json:
            self._print_json(found, line, difference)
        elif self._arguments.summary:
            print(f"{_heading(found.place)}  {line}")
        else:
            print(f"\n{_heading(found.place)}  {line}")
            print("\n".join(render(list_packet(found.packet), whole=self._arguments.body)))
            self._print_body(found)
        if difference is not None:
            self.problems += 1
            self.complain(f"{found.place}: {difference}")

    def _print_body(self, found: Found) -> None:
        decoded = body_of(found.packet)
        if decoded is not None:
            print(body_line(decoded, whole=self._arguments.body))

    def _print_stream(self, stream: str | None) -> None:
        if stream is not None and stream != self._stream:
            self._stream = stream
            self._print_text(stream if self._arguments.summary else f"\n{stream}")

    def _print_json(self, found: Found, line: str, difference: str | None) -> None:
        record: dict[str, Any] = {
            **self._json_place(found.place),
            "size": len(found.data),
            "kind": type(found.packet).__name__,
            "summary": line,
            "structures": as_json(list_packet(found.packet)),
        }
        decoded = body_of(found.packet)
        if decoded is not None:
            record |= {"body": body_record(decoded)}
        if self._arguments.verify:
            record |= {"difference": difference}
        print(json.dumps(record))

    def _print_problem(self, problem: Problem) -> None:
        self.problems += 1
        place = problem.place
        if place is not None:
            self._print_stream(place.stream)
        if self._is_json:
            print(json.dumps({**self._json_place(place), "problem": problem.text}))
        self.complain(problem.text if place is None else f"{place}: {problem.text}")

    def _json_place(self, place: Place | None) -> dict[str, Any]:
        stream, number, offset = (None, None, None) if place is None else place
        return {"file": self._name, "stream": stream, "packet": number, "offset": offset}


def _heading(place: Place) -> str:
    return f"#{place.number} at {place.offset:#06x}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
