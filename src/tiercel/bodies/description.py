"""A body for people, in the JSON of the HTTP API."""

from tiercel.bodies.bus_headers import bus_headers
from tiercel.bodies.decoding import decode


def describe(body: bytes, body_type: int, extension: bytes) -> dict[str, object]:
    """Its kind and text; the headers of WCF or a service bus, and an error, if there are any."""
    found = decode(body, body_type)
    answer: dict[str, object] = {"kind": str(found.kind), "text": found.text}
    headers = {**found.headers, **bus_headers(extension, found)}
    if headers:
        answer["headers"] = headers
    return answer if found.error is None else answer | {"error": found.error}
