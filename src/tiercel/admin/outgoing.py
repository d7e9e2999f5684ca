"""Messages that wait for other computers, and why: in a sentence."""

from typing import Any, Final

from tiercel.admin.message_json import time_text
from tiercel.admin.queues import is_paused
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import ConnectionStatus, OutgoingQueueState
from tiercel.model.errors import UnknownCodeError, error_for_code
from tiercel.model.queue import ConnectionHistoryEntry, OutgoingQueue

Json = dict[str, Any]

_SENTENCES: Final = {
    ConnectionStatus.IN_PROCESS: "connecting",
    ConnectionStatus.ESTABLISH_PACKET_RECEIVED: "connecting",
    ConnectionStatus.ESTABLISHED: "connected",
    ConnectionStatus.UNKNOWN_FAILURE: "the other side ended the connection (the log has more)",
    ConnectionStatus.PING_FAILURE: "no answer to a ping",
    ConnectionStatus.SOCKET_CREATE_FAILURE: "no socket",
    ConnectionStatus.SOCKET_BIND_FAILURE: "the local address cannot be used",
    ConnectionStatus.SOCKET_CONNECT_FAILURE: "cannot connect",
    ConnectionStatus.TCP_NOT_ENABLED: "TCP is not enabled",
    ConnectionStatus.SOCKET_SEND_FAILURE: "connection lost while sending",
    ConnectionStatus.CONNECTION_NOT_READY: "the other side is not ready",
    ConnectionStatus.DNS_FAILURE: "unknown computer name",
    ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE: "the certificate of the other side is not valid",
    ConnectionStatus.CONNECTION_LIMIT_REACHED: "too many connections",
    ConnectionStatus.CONNECTION_REFUSED: "connection refused",
    ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE: "no route",
    ConnectionStatus.LOW_RESOURCE: "out of memory for sockets",
}
_FIXES: Final = {
    ConnectionStatus.PING_FAILURE: "start the queue manager there, or correct the address",
    ConnectionStatus.SOCKET_CONNECT_FAILURE: "start the queue manager there, or correct the address",
    ConnectionStatus.CONNECTION_REFUSED: "start the queue manager there, or correct the address",
    ConnectionStatus.DNS_FAILURE: "correct the computer name, or add it to DNS or [hosts]",
    ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE: "renew its certificate, or correct [[peers]]",
    ConnectionStatus.UNKNOWN_FAILURE: "read the log of both computers",
    ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE: "add the computer to [machines] or [routing]",
}
_HELD: Final = {
    OutgoingQueueState.ON_HOLD: "paused by an administrator",
    OutgoingQueueState.LOCKED: "locked: [access] hardened allows messages over HTTP only",
}
# HRESULTs of Winsock, which the connection history keeps: name and meaning.
_WINSOCK: Final = {
    0x8007_2728: ("WSAEMFILE", "too many open files"),
    0x8007_2740: ("WSAEADDRINUSE", "the address is in use"),
    0x8007_2741: ("WSAEADDRNOTAVAIL", "the local address does not exist"),
    0x8007_2743: ("WSAENETUNREACH", "the network is unreachable"),
    0x8007_2746: ("WSAECONNRESET", "the other side reset the connection"),
    0x8007_2747: ("WSAENOBUFS", "no buffer space"),
    0x8007_274C: ("WSAETIMEDOUT", "no answer in time"),
    0x8007_274D: ("WSAECONNREFUSED", "nothing listens there"),
    0x8007_2751: ("WSAEHOSTUNREACH", "the computer is unreachable"),
}


def row(engine: Engine, state: QueueState) -> Json:
    queue = state.queue
    assert isinstance(queue, OutgoingQueue)
    last = queue.connection_history[-1] if queue.connection_history else None
    return {
        "format_name": str(queue.destination_format_name),
        "state": queue.state.name.lower(),
        "paused": is_paused(state),
        "count": state.count,
        "bytes": state.size_bytes,
        "locked": len(state.locks),
        "oldest_arrival": time_text(engine.browsing.oldest_arrival(state)),
        "next_hops": queue.next_hops or [],
        "reason": queue.reason,
        "why": _why(queue, last),
        "error_name": _error(last.error)[0] if last is not None and last.error else None,
        "last_try": None if last is None else time_text(last.connection_history_time),
        "next_try": time_text(queue.next_try or None),
        "unacknowledged": queue.transfer_info.eod_no_ack_count,
        "history": [_entry(each) for each in queue.connection_history],
    }


def _why(queue: OutgoingQueue, last: ConnectionHistoryEntry | None) -> str:
    """Why its messages are still here; "" if it has not tried to connect."""
    if queue.state in _HELD:
        return _HELD[queue.state]
    if queue.reason or last is None:
        return queue.reason
    return _meaning(last)


def sentence(entry: ConnectionHistoryEntry) -> str:
    """A line of the connection history, with the address that was tried."""
    where = f" ({', '.join(entry.address_list)})" if entry.address_list else ""
    return f"{_meaning(entry)}{where}"


def fix_of(queue: OutgoingQueue) -> str:
    """What to do so that its messages leave; "" if they will by themselves."""
    if queue.state is OutgoingQueueState.ON_HOLD:
        return "resume it"
    last = queue.connection_history[-1] if queue.connection_history else None
    return "" if last is None else _FIXES.get(last.status, "")


def _meaning(entry: ConnectionHistoryEntry) -> str:
    meaning, said = _error(entry.error)[1], _SENTENCES[entry.status]
    return f"{said}: {meaning}" if meaning else said


def _error(code: int) -> tuple[str, str]:
    """Its name, and its meaning if there is more to say than the status does."""
    if code in _WINSOCK:
        return _WINSOCK[code]
    error = error_for_code(code)
    if issubclass(error, UnknownCodeError) or not code:
        return f"0x{code & 0xFFFF_FFFF:08X}", ""
    return error.name, error.meaning


def _entry(entry: ConnectionHistoryEntry) -> Json:
    return {
        "time": time_text(entry.connection_history_time),
        "status": entry.status.name.lower(),
        "error": entry.error,
        "error_name": _error(entry.error)[0] if entry.error else None,
        "addresses": list(entry.address_list),
    }
