"""The checks that `bench_checks.py` leaves out of a daemon, to see what they cost. Never for anything else.

Becomes the `sitecustomize` of the daemons on the one side of the comparison, so the checks are gone before
they start; TIERCEL_BENCH_WITHOUT names which.
"""

import os
from collections.abc import Callable
from typing import Any

from tiercel.binary.incoming import Incoming
from tiercel.binary.session import Session
from tiercel.engine.admission import Admission, Judged
from tiercel.engine.arrivals import Arrivals, Source
from tiercel.engine.incoming_streams import IncomingStreams
from tiercel.engine.outgoing import Outgoing
from tiercel.engine.quotas import Quotas
from tiercel.message_security.verdict import NOTHING
from tiercel.model.codes import MessageClass


def _always(value: object) -> Callable[..., Any]:
    return lambda *_arguments, **_options: value


def without_security() -> None:
    """Message security on the way of a plain message: signatures, encryption, verdicts."""

    def unprotected(self: Any, queue: Any, packet: Any) -> Any:
        return None if self._access.may_write(queue, packet, b"") else MessageClass.NACK_ACCESS_DENIED

    replaced: Any = Admission
    replaced._unprotected = unprotected  # noqa: SLF001
    replaced.judged = lambda _self, packet: Judged(packet, NOTHING)
    _replace(Arrivals, "_identities", lambda _self, messages, _queue: messages.identities)
    _replace(Session, "_must_wait", _always(False))
    _replace(Outgoing, "_sealed", lambda _self, taken: taken)


def without_belief() -> None:
    """Who is believed, and the bounds on what strangers can make us keep."""
    _replace(Source, "may_speak_for", _always(True))
    _replace(Arrivals, "meet", _always(True))
    _replace(IncomingStreams, "is_early", _always(False))
    _replace(Quotas, "check_room", _always(None))
    _replace(Outgoing, "doubt_order_ack", _always(None))
    _replace(Incoming, "_compare_address", _always(None))
    _replace(Incoming, "_end_if_disbelieved", _always(None))
    _replace(Session, "_hold_partial_packet", _always(None))

    def put_on_wire(self: Any, queue: Any, run: Any, receiver: Any) -> None:
        """Only in memory: an OrderAck must still find its messages."""
        number = next((taken.number for taken in reversed(run) if taken.number), 0)
        if number:
            self._streams[queue].put_on_wire(number, receiver)

    _replace(Outgoing, "_put_on_wire", put_on_wire)


def _replace(owner: Any, name: str, function: Callable[..., Any]) -> None:
    assert hasattr(owner, name), f"{owner.__name__}.{name} is gone: what does the comparison measure?"
    setattr(owner, name, function)


WITHOUT = {"security": without_security, "belief": without_belief}

if chosen := os.environ.get("TIERCEL_BENCH_WITHOUT"):
    WITHOUT[chosen]()
