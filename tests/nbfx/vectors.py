"""The vectors, and how to read and write each of their three formats."""

import json
from pathlib import Path
from typing import Any

from tiercel import nbfx

VECTORS = Path(__file__).resolve().parent.parent / "vectors"


def load(folder: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted((VECTORS / folder).glob("*.json"))]


def read(form: str, data: bytes) -> list[nbfx.Event]:
    session = nbfx.ReaderSession() if form == "nbfse" else None
    return list(nbfx.decode(data, session, static=form != "nbfx"))


def write(form: str, events: list[nbfx.Event]) -> bytes:
    session = nbfx.WriterSession() if form == "nbfse" else None
    return nbfx.encode(events, session, static=form != "nbfx")


def without_carriage_returns(text: str) -> str:
    """The vectors have a bare carriage return, which an XML reader would change; we write a reference."""
    return text.replace("&#xD;", "\r")


def as_mono(events: list[nbfx.Event]) -> list[dict[str, object]]:
    """The events in the form of the vectors, which were recorded from .NET's reader."""
    from tiercel.nbfx.events import without_arrays  # noqa: PLC0415 - used here only

    found: list[dict[str, object]] = []
    names: list[str] = []
    for event in without_arrays(events):
        if event[0] == "start":
            _, prefix, name, namespace, attributes = event
            names.append(name)
            listed = [[*attribute[:3], nbfx.text_of(attribute[3])] for attribute in attributes]
            found.append({"start": [prefix, name, namespace], "empty": False, "attrs": listed})
        elif event[0] == "text":
            found.append({"text": nbfx.text_of(event[1]), "type": "System.String"})
        elif event[0] == "end":
            found.append({"end": names.pop()})
        else:
            found.append({"comment": event[1]})
    return found
