"""Message bodies in the output of `tiercel decode`."""

from tiercel.bodies import Decoded, decode
from tiercel.srmp.request import SrmpRequest
from tiercel.wire.dump import quote
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.user_message import UserMessage

_SHOWN_CHARACTERS = 80


def body_of(packet: object) -> Decoded | None:
    """The decoded body; None if there is none or it is encrypted."""
    if isinstance(packet, SrmpRequest):
        if packet.body is None:
            return None
        return decode(
            packet.body.content, 0 if packet.envelope.msmq is None else packet.envelope.msmq.body_type
        )
    if not isinstance(packet, UserMessage) or packet.security_flags & ENCRYPTED_BODY or not packet.body:
        return None
    return decode(packet.body, packet.properties.body_type)


def body_line(decoded: Decoded, *, whole: bool) -> str:
    if decoded.error is not None:
        return f"body: {decoded.kind}, but {quote(decoded.error)[1:-1]}"
    if decoded.text is None:
        return f"body: {decoded.kind}"
    text = decoded.text if whole else decoded.text[:_SHOWN_CHARACTERS]
    more = len(decoded.text) - len(text)
    headers = "".join(f"{name} {quote(value)} " for name, value in decoded.headers.items())
    return f"body: {decoded.kind} {headers}{quote(text)}" + (f" and {more} more characters" if more else "")


def body_record(decoded: Decoded) -> dict[str, str | None]:
    """For --json: the same fields as in Spark; those of WCF where the body has them."""
    record = {"kind": str(decoded.kind), "text": decoded.text, "json": decoded.json, "error": decoded.error}
    return {**record, **decoded.headers}
