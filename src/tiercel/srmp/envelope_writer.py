"""Values to SOAP envelopes: [MC-MQSRM] 3.1.7.2.4. One line, no declaration, the order of Windows' examples.

`rev` stands before `id`, as in every example that a queue manager wrote; the text has them the other way
round.
"""

import base64
import re
from collections.abc import Iterator
from uuid import UUID

from tiercel.message_security.xml_signature import XMLDSIG, XmlSignature
from tiercel.srmp.envelope import (
    MSMQ,
    RP,
    SE,
    SRMP,
    Envelope,
    Eod,
    Msmq,
    Path,
    Properties,
    Services,
    Stream,
)
from tiercel.srmp.values import format_date, format_expiry, format_guid, format_message_id

START = f'<se:Envelope xmlns:se="{SE}" xmlns="{SRMP}"><se:Header>'
END = "</se:Header><se:Body></se:Body></se:Envelope>"
_SPECIAL = re.compile('[&<>"\r\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]')
_REFERENCES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#xD;"}


def write_envelope(envelope: Envelope) -> bytes:
    return "".join((START, *_headers(envelope), END)).encode()


def escaped(text: str) -> str:
    """Text for XML 1.0; characters that it cannot have in any way become U+FFFD."""
    return _SPECIAL.sub(lambda found: _REFERENCES.get(found[0], "\ufffd"), text)


def _leaf(name: str, value: object) -> str:
    """Numbers and identifiers have nothing to escape."""
    return f"<{name}>{escaped(value) if isinstance(value, str) else value}</{name}>"


def _flag(name: str, value: bool) -> str:
    return f"<{name}/>" if value else ""


def _headers(envelope: Envelope) -> Iterator[str]:
    yield _path(envelope.path)
    yield _properties(envelope.properties)
    if envelope.services is not None:
        yield _services(envelope.services)
    if envelope.stream is not None:
        yield _stream(envelope.stream)
    yield from _receipts(envelope)
    if envelope.msmq is not None:
        yield f'<Msmq xmlns="{MSMQ}">{"".join(_msmq(envelope.msmq))}</Msmq>'
    if envelope.signature is not None:
        yield _signature(envelope.signature)


def _path(path: Path) -> str:
    """2.2.4"""
    rev = f"<rev>{_leaf('via', path.via)}</rev>" if path.via else ""
    return (
        f'<path xmlns="{RP}" se:mustUnderstand="1">{_leaf("action", path.action)}{_leaf("to", path.to)}'
        f"{rev}{_leaf('id', format_message_id(path.id))}</path>"
    )


def _properties(properties: Properties) -> str:
    """2.2.5.1"""
    sent_at = "" if properties.sent_at is None else _leaf("sentAt", format_date(properties.sent_at))
    expires_at = _leaf("expiresAt", format_expiry(properties.expires_at))
    return f'<properties se:mustUnderstand="1">{expires_at}{sent_at}</properties>'


def _services(services: Services) -> str:
    """2.2.5.2"""
    text = _flag("durable", services.durable)
    if (send_to := services.delivery_receipt_request) is not None:
        text += f"<deliveryReceiptRequest>{_leaf('sendTo', send_to)}</deliveryReceiptRequest>"
    if (request := services.commitment_receipt_request) is not None:
        flags = _flag("positiveOnly", request.positive_only) + _flag("negativeOnly", request.negative_only)
        text += (
            f"<commitmentReceiptRequest>{_leaf('sendTo', request.send_to)}{flags}</commitmentReceiptRequest>"
        )
    return f'<services se:mustUnderstand="1">{text}</services>'


def _stream(stream: Stream) -> str:
    """2.2.5.3"""
    text = _leaf("streamId", stream.stream_id) + _leaf("current", stream.current)
    if stream.previous is not None:
        text += _leaf("previous", stream.previous)
    if stream.start is not None:
        text += f"<start>{_leaf('sendReceiptsTo', stream.start)}</start>"
    return f'<{stream.tag} se:mustUnderstand="1">{text}</{stream.tag}>'


def _receipts(envelope: Envelope) -> Iterator[str]:
    """2.2.5.4 to 2.2.5.6"""
    if (delivery := envelope.delivery_receipt) is not None:
        received_at = _leaf("receivedAt", format_date(delivery.received_at))
        yield f"<deliveryReceipt>{received_at}{_leaf('id', format_message_id(delivery.id))}</deliveryReceipt>"
    if (stream := envelope.stream_receipt) is not None:
        last = _leaf("lastOrdinal", stream.last_ordinal)
        yield f"<streamReceipt>{_leaf('streamId', stream.stream_id)}{last}</streamReceipt>"
    if (commitment := envelope.commitment_receipt) is not None:
        decided = _leaf("decidedAt", format_date(commitment.decided_at)) + _leaf(
            "decision", commitment.decision
        )
        identifier = _leaf("id", format_message_id(commitment.id))
        yield f"<commitmentReceipt>{decided}{identifier}</commitmentReceipt>"


def _msmq(msmq: Msmq) -> Iterator[str]:
    """2.2.6. Zeros are written too, as Windows does (trap 28)."""
    yield _leaf("Class", int(msmq.message_class))
    yield _leaf("Priority", msmq.priority)
    yield _flag("Journal", msmq.journal)
    yield _flag("DeadLetter", msmq.dead_letter)
    yield _leaf("Correlation", base64.b64encode(msmq.correlation).decode())
    yield _flag("Trace", msmq.trace)
    yield _guid("ConnectorType", msmq.connector_type)
    yield _leaf("App", msmq.app)
    yield _leaf("BodyType", msmq.body_type)
    yield _leaf("HashAlgorithm", int(msmq.hash_algorithm))
    if msmq.eod is not None:
        yield _eod(msmq.eod)
    if (provider := msmq.provider) is not None:
        yield f"<Provider>{_leaf('Type', provider.type)}{_leaf('Name', provider.name)}</Provider>"
    yield _leaf("SourceQmGuid", format_guid(msmq.source_qm_guid))
    yield _list("DestinationMqf", msmq.destination_mqf)
    yield _list("AdminMqf", msmq.admin_mqf)
    yield _list("ResponseMqf", msmq.response_mqf)
    yield _leaf("TTrq", format_expiry(msmq.ttrq))


def _guid(name: str, guid: UUID | None) -> str:
    return "" if guid is None else _leaf(name, guid)


def _eod(eod: Eod) -> str:
    """2.2.6.11"""
    marks = _flag("First", eod.first) + _flag("Last", eod.last)
    return f"<Eod>{marks}{_guid('ConnectorId', eod.connector_id)}</Eod>"


def _list(name: str, queues: tuple[str, ...]) -> str:
    """2.2.6.14 to 2.2.6.16. Line breaks suit both passages about white space (trap 35)."""
    return _leaf(name, "\n".join(queues)) if queues else ""


def _signature(signature: XmlSignature) -> str:
    """2.2.7. What is signed stays octet by octet; with a prefix it would mean nothing here."""
    info = signature.signed_info.decode() if signature.signed_info.startswith(b"<SignedInfo") else ""
    return (
        f'<Signature xmlns="{XMLDSIG}">{info}{_leaf("SignatureValue", signature.signature_value)}</Signature>'
    )
