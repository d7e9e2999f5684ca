"""The requests in tests/vectors/srmp, and how to change them."""

import json
import re
from pathlib import Path
from typing import Any

from tiercel.srmp.http_request import HttpRequest, RequestHead, read_http_request, read_multicast
from tiercel.srmp.request import SrmpRequest, read_srmp, write_srmp

VECTORS = Path(__file__).resolve().parent.parent / "vectors" / "srmp"
REQUESTS = sorted(path.stem for path in VECTORS.glob("*.http") if "response" not in path.stem)
VALID = [name for name in REQUESTS if "BAD" not in name]
BAD = [name for name in REQUESTS if "BAD" in name]
# Written by queue managers, or as they write: one line of XML, the framing of trap 19.
CANONICAL = (
    "02_msmq_element",
    "03c_delivery_receipt",
    "03e_commitment_receipt",
    "04b_stream_receipt1",
    "04d_stream_receipt2",
    "04f_stream_receipt3",
    "05_pgm",
    "08_lowercase_stream",
    "09_stream_gap",
    "12_signed_body",
    "13_signed_wrong_reference",
)


def load(name: str) -> bytes:
    return (VECTORS / f"{name}.http").read_bytes()


def expected() -> dict[str, dict[str, Any]]:
    files = (VECTORS / "expected.json", VECTORS / "expected-more.json")
    return {name: value for file in files for name, value in json.loads(file.read_text("utf-8")).items()}


def http(name: str) -> HttpRequest:
    data = load(name)
    return read_multicast(data) if name == "05_pgm" else read_http_request(data)


def read(name: str) -> SrmpRequest:
    return read_srmp(http(name), over_multicast=name == "05_pgm")


def written(request: SrmpRequest) -> bytes:
    """The request written again from its values."""
    number = re.search(rb'boundary, (\d+)"', request.http.head.encode())
    return write_srmp(
        request.envelope,
        None if request.body is None else request.body.content,
        None if request.extension is None else request.extension.content,
        content_guid="" if request.body is None else request.body.content_id.partition("@")[2],
        boundary=int(number[1]) if number else 0,
        host=request.http.head.header("Host") or "",
    ).encode()


def document(name: str) -> bytes:
    """The envelope of a vector."""
    return read(name).envelope_part.content


def posted(envelope: bytes) -> HttpRequest:
    """A request with only this envelope."""
    return HttpRequest(RequestHead("POST", "/", (("Content-Type", "text/xml"),)), envelope)


def changed(name: str, old: str, new: str) -> bytes:
    """The envelope of a vector with one text replaced, which must be there."""
    data = document(name)
    assert data.count(old.encode()) >= 1, old
    return data.replace(old.encode(), new.encode(), 1)
