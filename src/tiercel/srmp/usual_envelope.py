"""Envelopes of ordinary messages, exactly as queue managers write them, read by one pattern.

An XML parser calls Python for every element and takes four times as long. The pattern has no entities, no
comments and no white space between elements, so that it can match only what the parser would read in the same
way. Everything else, and everything that is not valid, is for `envelope_reader`.

The messages of one sender differ in their id, number and label; the other parts are cached, by their text,
whose size the pattern and the parsers limit.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from tiercel.srmp.envelope import (
    MSMQ,
    RP,
    Envelope,
    Eod,
    Msmq,
    Path,
    Properties,
    Services,
    Stream,
)
from tiercel.srmp.envelope_reader import (
    check_label,
    check_stream,
    parse_class,
    parse_correlation,
    parse_destination,
    parse_priority,
    parse_response,
    parse_sent_at,
    parse_u32,
)
from tiercel.srmp.envelope_writer import END, START
from tiercel.srmp.limits import ENVELOPE_MAX_BYTES
from tiercel.srmp.values import parse_date, parse_guid, parse_message_id, parse_stream_id

# XML takes these characters as they are.
_TEXT = "([^<>&\0-\x1f\ufffe\uffff]*)"
_DURABLE = Services(durable=True)
_HEADER_AT = START.index("<se:Header>")
_BODY_AT = END.index("<se:Body>")
_BODY_END = END.index("</se:Envelope>")


def _leaf(name: str) -> str:
    return f"<{name}>{_TEXT}</{name}>"


def _optional(pattern: str) -> str:
    return f"(?:{pattern})?"


def _flag(name: str) -> str:
    return f"(<{name}/>)?"


_PATTERN = re.compile(
    "".join(
        (
            re.escape(START),
            f'<path xmlns="{re.escape(RP)}" se:mustUnderstand="1">',
            *(_leaf("action"), _leaf("to"), _optional(f"<rev>{_leaf('via')}</rev>"), _leaf("id")),
            '</path><properties se:mustUnderstand="1">',
            *(_leaf("expiresAt"), _optional(_leaf("sentAt"))),
            "</properties>",
            '(<services se:mustUnderstand="1"><durable/></services>)?',
            '(?:<(?P<tag>[Ss]tream) se:mustUnderstand="1">',
            *(_leaf("streamId"), _leaf("current"), _optional(_leaf("previous"))),
            "</(?P=tag)>)?",
            f'<Msmq xmlns="{re.escape(MSMQ)}">',
            *(_leaf("Class"), _leaf("Priority"), _flag("Journal"), _flag("DeadLetter")),
            *(
                "<Correlation>([A-Za-z0-9+/=]{28})</Correlation>",
                _flag("Trace"),
                _leaf("App"),
                _leaf("BodyType"),
                _leaf("HashAlgorithm"),
            ),
            f"(<Eod>{_flag('First')}{_flag('Last')}</Eod>)?",
            *(_leaf("SourceQmGuid"), _leaf("TTrq")),
            "</Msmq>",
            re.escape(END),
        )
    )
)


class UsualEnvelope(NamedTuple):
    envelope: Envelope
    header: bytes  # the SOAP Header as it was sent
    body: bytes


def read_usual_envelope(document: bytes) -> UsualEnvelope | None:
    """The envelope in a document; None if it is unusual or not valid."""
    if len(document) > ENVELOPE_MAX_BYTES:
        return None
    try:
        found = _PATTERN.fullmatch(document.decode())
        envelope = None if found is None else _envelope(found.groups())
    except ValueError:
        return None
    if envelope is None:
        return None
    body_at = len(document) - len(END) + _BODY_AT
    header = document[_HEADER_AT:body_at]
    return UsualEnvelope(envelope, header, document[body_at : body_at + _BODY_END - _BODY_AT])


def _envelope(texts: tuple[str | None, ...]) -> Envelope:
    """Raises a ValueError for what is not valid."""
    action, to, via, identifier, expires_at, sent_at, durable, *rest = texts
    tag, stream_id, current, previous, *msmq = rest
    assert action is not None
    assert to is not None
    assert identifier is not None
    assert expires_at is not None
    check_label(action)
    parse_destination(to)
    return Envelope(
        path=Path(action, to, parse_message_id(identifier), parse_response((via or "").strip(" "))),
        properties=_properties(expires_at, sent_at),
        services=None if durable is None else _DURABLE,
        stream=None if tag is None else _stream(tag, stream_id or "", current or "", previous),
        msmq=_msmq(*msmq),
    )


@lru_cache(256)
def _properties(expires_at: str, sent_at: str | None) -> Properties:
    return Properties(parse_date(expires_at), None if sent_at is None else parse_sent_at(sent_at))


def _stream(tag: str, stream_id: str, current: str, previous: str | None) -> Stream:
    stream = Stream(
        parse_stream_id(stream_id),
        parse_u32(current),
        None if previous is None else parse_u32(previous),
        tag=tag,
    )
    if check_stream(stream):
        raise ValueError
    return stream


@lru_cache(256)
def _msmq(*texts: str | None) -> Msmq:
    flags = [text is not None for text in texts]
    message_class, priority, _, _, correlation, _, app, body_type, hashed_by, _, _, _, source, ttrq = (
        text or "" for text in texts
    )
    return Msmq(
        source_qm_guid=parse_guid(source),
        ttrq=parse_date(ttrq),
        message_class=parse_class(message_class),
        priority=parse_priority(priority),
        journal=flags[2],
        dead_letter=flags[3],
        correlation=parse_correlation(correlation),
        trace=flags[5],
        app=parse_u32(app),
        body_type=parse_u32(body_type),
        hash_algorithm=parse_u32(hashed_by),
        eod=Eod(flags[10], flags[11]) if flags[9] else None,
    )
