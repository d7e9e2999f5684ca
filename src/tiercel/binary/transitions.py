"""The states of a session and their transitions: [MS-MQQB] 3.1.1.1.1, figures 3 and 4.

The table is the protocol: an event that is missing from a state's row is an error of the peer, and ends the
session without an answer. The first four states are those of an initiator that has no connection yet.
"""

from enum import Enum

from tiercel.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from tiercel.wire.order_ack import FinalAck, OrderAck
from tiercel.wire.packet import Packet
from tiercel.wire.user_message import UserMessage


class State(Enum):
    RESOLVING = "resolving"
    PINGING = "pinging"
    CONNECTING = "connecting"
    WAITING_RECONNECT = "waiting to reconnect"
    WAITING_EC = "waiting for EstablishConnection"
    WAITING_ECR = "waiting for the answer to EstablishConnection"
    WAITING_CP = "waiting for ConnectionParameters"
    WAITING_CPR = "waiting for the answer to ConnectionParameters"
    OPEN = "open"
    CLOSED = "closed"


class Event(Enum):
    # Around the connection.
    RESOLVED = "addresses found"
    PING_WANTED = "the computer is to be pinged first"
    FAILED = "no address, no answer, or no connection"
    CONNECTED = "connected"
    RETRY = "time to try again"
    HOP_LEFT = "time to try the next address"
    GONE = "the connection is gone, or must go"
    # Packets.
    ESTABLISH_CONNECTION = "EstablishConnection"
    CONNECTION_PARAMETERS = "ConnectionParameters"
    SESSION_ACK = "SessionAck"
    USER_MESSAGE = "UserMessage"
    ORDER_ACK = "OrderAck"
    FINAL_ACK = "FinalAck"


EVENT_OF_PACKET: dict[type[Packet], Event] = {
    EstablishConnection: Event.ESTABLISH_CONNECTION,
    ConnectionParameters: Event.CONNECTION_PARAMETERS,
    SessionAck: Event.SESSION_ACK,
    UserMessage: Event.USER_MESSAGE,
    OrderAck: Event.ORDER_ACK,
    FinalAck: Event.FINAL_ACK,
}

_TRAFFIC = {
    Event.SESSION_ACK: State.OPEN,
    Event.USER_MESSAGE: State.OPEN,
    Event.ORDER_ACK: State.OPEN,
    Event.FINAL_ACK: State.OPEN,
}

TRANSITIONS: dict[State, dict[Event, State]] = {
    State.RESOLVING: {
        Event.RESOLVED: State.CONNECTING,
        Event.PING_WANTED: State.PINGING,
        Event.FAILED: State.WAITING_RECONNECT,
    },
    State.PINGING: {Event.RESOLVED: State.CONNECTING, Event.FAILED: State.WAITING_RECONNECT},
    State.CONNECTING: {Event.CONNECTED: State.WAITING_ECR, Event.FAILED: State.WAITING_RECONNECT},
    State.WAITING_RECONNECT: {Event.RETRY: State.RESOLVING, Event.HOP_LEFT: State.CONNECTING},
    State.WAITING_ECR: {Event.ESTABLISH_CONNECTION: State.WAITING_CPR, Event.GONE: State.CLOSED},
    State.WAITING_CPR: {Event.CONNECTION_PARAMETERS: State.OPEN, Event.GONE: State.CLOSED},
    State.WAITING_EC: {Event.ESTABLISH_CONNECTION: State.WAITING_CP, Event.GONE: State.CLOSED},
    State.WAITING_CP: {Event.CONNECTION_PARAMETERS: State.OPEN, Event.GONE: State.CLOSED},
    State.OPEN: {**_TRAFFIC, Event.GONE: State.CLOSED},
    State.CLOSED: {},
}


class ProtocolError(Exception):
    """The peer violated the protocol: the session ends without an answer (MQQB-013)."""


def after(state: State, event: Event) -> State:
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise ProtocolError(f"{event.value} while {state.value}") from None
