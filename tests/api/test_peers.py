"""Learned addresses of other queue managers over the API: a stranger becomes known by what it sends."""

import socket
import time
from uuid import UUID, uuid4

from api.asked import Api, Asked
from data.served import PATIENCE_S, until
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.wire.internal_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
)
from tiercel.wire.message import encode_message


def transactional(sender: UUID, queue: str) -> bytes:
    message = Message(
        b"hello",
        destination_queue=FormatName.parse(rf"DIRECT=TCP:127.0.0.1\private$\{queue}"),
        transaction_id=1,
        tx_sequence_id=TxSequenceId(1, 1),
        tx_sequence_number=1,
    )
    message.id, message.sent_time = MessageId(sender, 1), int(time.time())
    return encode_message(message)


def send(served: Asked, sender: UUID, packet: bytes) -> socket.socket:
    """As another queue manager does, on port 1801."""
    host, _, port = served.start["address"].rpartition(":")
    connection = socket.create_connection((host, int(port)), PATIENCE_S)
    connection.sendall(EstablishConnection.of(EstablishConnectionHeader(sender)).encode())
    assert connection.recv(1024)
    connection.sendall(ConnectionParameters.of(ConnectionParametersHeader(500, 20_000)).encode() + packet)
    return connection


def known(served: Api) -> dict[str, str]:
    return {each["guid"]: each["address"] for each in served.get("/peers").json()["peers"]}


def test_a_sender_is_listed_and_forgotten(served: Asked) -> None:
    served.create("peered", transactional=True)
    sender = uuid4()
    with send(served, sender, transactional(sender, "peered")):
        until(lambda: served.count("peered") == 1)
    assert known(served)[str(sender)] == "127.0.0.1"
    assert served.ask("DELETE", f"/peers/{sender}").json() == {"guid": str(sender)}
    assert str(sender) not in known(served)
    assert served.ask("DELETE", f"/peers/{sender}").status_code == 404
    assert served.ask("DELETE", "/peers/nobody").status_code == 400
    audited = [each for each in served.events if each.get("what") == "forget peer"]
    assert (audited[0]["subject"], audited[0]["result"]) == (str(sender), "200")


def test_a_sender_that_is_refused_is_not(served: Asked) -> None:
    sender = uuid4()
    with send(served, sender, transactional(sender, "missing")) as connection:
        assert "does not exist" in served.event("message_refused")["reason"]
        assert connection.recv(1024)
    assert str(sender) not in known(served)
