"""What must hold for binary XML and for the framing of WCF: any bytes give events or the one error."""

import json
from pathlib import Path

from basics import Target

from tiercel import nbfx
from tiercel.framing.body import read_body
from tiercel.framing.receiver import read_envelopes
from tiercel.model.errors import DecodeError

VECTORS = Path(__file__).resolve().parent.parent / "vectors"


def check_nbfx(data: bytes) -> None:
    """The first byte chooses between the dictionaries."""
    static = bool(data[:1] and data[0] & 1)
    _check(data[1:], static=static)


def check_nbfse(data: bytes) -> None:
    session = nbfx.ReaderSession()
    for _ in range(2):  # the second document of a session sees the strings of the first
        try:
            events = list(nbfx.decode(data, session))
        except DecodeError:
            return
        _check_events(events)


def _check(data: bytes, *, static: bool) -> None:
    try:
        events = list(nbfx.decode(data, static=static))
    except DecodeError:
        return
    _check_events(events)
    encoded = nbfx.encode(events, static=static)
    if nbfx.encode(nbfx.decode(encoded, static=static), static=static) != encoded:
        raise AssertionError("what was written reads as something else")


def _check_events(events: list[nbfx.Event]) -> None:
    try:
        nbfx.to_text(events).encode()
        nbfx.to_elements(events)
    except DecodeError:  # the document is too large as text
        return


def check_framing(data: bytes) -> None:
    try:
        framed = read_body(data)
        for events in read_envelopes(framed):
            _check_events(events)
    except DecodeError:
        return
    if read_body(framed.encode()) != framed:
        raise AssertionError("what was written reads as something else")


def _vectors(folder: str) -> list[dict[str, str]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted((VECTORS / folder).glob("*.json"))]


def _documents(form: str) -> list[bytes]:
    prefix = {"nbfx": b"\0", "nbfs": b"\1", "nbfse": b""}[form]
    return [prefix + bytes.fromhex(each["hex"]) for each in _vectors("nbfx") if each["format"] == form]


TARGETS: dict[str, Target] = {
    "nbfse": Target(check_nbfse, lambda: _documents("nbfse")),
    "nbfx": Target(check_nbfx, lambda: _documents("nbfx") + _documents("nbfs")),
    "wcf_framing": Target(check_framing, lambda: [bytes.fromhex(each["hex"]) for each in _vectors("nmfmb")]),
}
