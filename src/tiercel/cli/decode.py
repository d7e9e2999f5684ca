"""`tiercel decode`: prints packets from files and captures, field by field."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tiercel.cli.body import body_line, body_of, body_record
from tiercel.cli.packets import Contents, Found, Note, Place, Problem, read_contents, verify
from tiercel.model.errors import DecodeError
from tiercel.wire.capture import TCP_PORT, UDP_PORT
from tiercel.wire.dump import as_json, render

FINE, FAILED, UNUSABLE = 0, 1, 2

verbs = typer.Typer()


@dataclass(frozen=True, slots=True)
class _Options:
    json: bool
    summary: bool
    body: bool
    verify: bool
    tcp_ports: list[int]
    udp_ports: list[int]


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise typer.BadParameter(f"{text!a} is not a valid port; use 1 to 65535")
    return int(text)


@verbs.command(
    "decode",
    epilog="""\
A FILE contains raw packets, an HTTP request of SRMP, hexadecimal text (plain, or a dump by xxd, hexdump -C,
od -A x -t x1 or tshark -x), or a pcap or pcapng capture, whose TCP streams and multicasts are reassembled.

    tiercel decode capture.pcapng
    tiercel decode --summary capture.pcapng
    tiercel decode --json capture.pcapng | jq .summary
    tiercel decode --tcp-port 80 capture.pcapng

exit codes: 0 everything decoded (and verified), 1 something was not, 2 invalid usage or unreadable FILE
""",
)
def decode(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files to decode; - is stdin.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line and packet.")
    ] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Print one line per packet.")] = False,
    body: Annotated[bool, typer.Option("--body", help="Show bodies and other long fields in full.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Encode each packet again and compare the bytes.")
    ] = False,
    tcp_port: Annotated[
        list[int] | None,
        typer.Option(
            metavar="PORT",
            parser=_port,
            help=f"TCP port in captures (default: {TCP_PORT}); repeatable.",
        ),
    ] = None,
    udp_port: Annotated[
        list[int] | None,
        typer.Option(
            metavar="PORT",
            parser=_port,
            help=f"UDP port in captures (default: {UDP_PORT}); repeatable.",
        ),
    ] = None,
) -> int:
    """Print MSMQ packets: every structure, and every field with its offset, size and meaning."""
    if as_json and summary:
        raise typer.BadParameter("use only one of these", param_hint=["--json", "--summary"])
    options = _Options(as_json, summary, body, verify, tcp_port or [TCP_PORT], udp_port or [UDP_PORT])
    return max(_decode_file(name, options) for name in files)


def _decode_file(name: str, options: _Options) -> int:
    printer = _Printer("standard input" if name == "-" else name, options)
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        printer.complain(error.strerror or str(error))
        return UNUSABLE
    try:
        contents = read_contents(data, options.tcp_ports, options.udp_ports)
    except DecodeError as error:
        printer.complain(f"not valid hexadecimal text: {error.problem}")
        return FAILED
    printer.print_contents(contents)
    return FAILED if printer.problems or not printer.packets else FINE


class _Printer:
    """Prints the packets of one file to stdout, and its problems to stderr."""

    def __init__(self, name: str, options: _Options) -> None:
        self.packets = 0
        self.problems = 0
        self._name = name
        self._options = options
        self._is_json = options.json
        self._stream: str | None = None

    def complain(self, text: str) -> None:
        # Flush first, so that a terminal shows the error after the packets.
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
        elif not self._options.summary:
            self._print_text("")
        self._print_text(self._result())

    def _result(self) -> str:
        words = [_plural(self.packets, "packet")]
        if self._options.verify and self.packets and not self.problems:
            words.append("verified: encoding gives the same bytes")
        if self.problems:
            words.append(_plural(self.problems, "problem"))
        return ", ".join(words)

    def _print_text(self, text: str) -> None:
        if not self._is_json:
            print(text)

    def _print_found(self, found: Found) -> None:
        self.packets += 1
        line = found.summary
        difference = verify(found) if self._options.verify else None
        self._print_stream(found.place.stream)
        if self._is_json:
            self._print_json(found, line, difference)
        elif self._options.summary:
            print(f"{_heading(found.place)}  {line}")
        else:
            print(f"\n{_heading(found.place)}  {line}")
            print("\n".join(render(found.listings(), whole=self._options.body)))
            self._print_body(found)
        if difference is not None:
            self.problems += 1
            self.complain(f"{found.place}: {difference}")

    def _print_body(self, found: Found) -> None:
        decoded = body_of(found.packet)
        if decoded is not None:
            print(body_line(decoded, whole=self._options.body))

    def _print_stream(self, stream: str | None) -> None:
        if stream is not None and stream != self._stream:
            self._stream = stream
            self._print_text(stream if self._options.summary else f"\n{stream}")

    def _print_json(self, found: Found, line: str, difference: str | None) -> None:
        record: dict[str, Any] = {
            **self._json_place(found.place),
            "size": len(found.data),
            "kind": type(found.packet).__name__,
            "summary": line,
            "structures": as_json(found.listings()),
        }
        decoded = body_of(found.packet)
        if decoded is not None:
            record |= {"body": body_record(decoded)}
        if self._options.verify:
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
