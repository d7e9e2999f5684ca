"""Clients: what is in the queue after a call."""

from typing import Any
from uuid import UUID
from xml.etree import ElementTree as ET

import pytest

import tiercel
from tiercel import wcf
from tiercel.framing.body import read_body
from tiercel.framing.receiver import read_envelopes
from tiercel.framing.records import Encoding, Mode
from tiercel.model.codes import AuthenticationLevel, DeliveryGuarantee, SenderIdType
from tiercel.model.errors import (
    IllegalFormatNameError,
    IllegalPropertyVariantTypeError,
    InvalidParameterError,
    MqError,
    QueueNotFoundError,
    UnsupportedFormatNameOperationError,
)
from tiercel.wcf.envelope import Envelope

from .conftest import ACTION, ADDRESS, NAMESPACE, send

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def envelopes(message: tiercel.Message) -> list[Envelope]:
    return [Envelope(events, message) for events in read_envelopes(read_body(message.body))]


@pytest.mark.conformance("NMFMB-001", "NMFMB-002", "NMFMB-011", "NMFMB-023", "NMFMB-027")
def test_each_call_is_a_message(orders: wcf.Endpoint, queue: Any) -> None:
    send(orders, 1, 2, 3)
    assert queue.count == 3
    for number in 1, 2, 3:
        message = queue.receive(0)
        framed = read_body(message.body)
        assert message.body.startswith(b"\0\1\0\1\4")
        assert (framed.preamble.mode, framed.preamble.via) == (Mode.SINGLETON_SIZED, ADDRESS)
        assert framed.preamble.encoding is Encoding.BINARY
        (envelope,) = envelopes(message)
        assert envelope.arguments == {"order": {"id": number}}


@pytest.mark.conformance("NMFMB-012", "NMFMB-017")
def test_properties_of_the_message(orders: wcf.Endpoint, queue: Any) -> None:
    send(orders, 1)
    message = queue.receive(0)
    assert message.body_type == 0x1011
    assert message.delivery == DeliveryGuarantee.RECOVERABLE
    assert message.sender_id_type == SenderIdType.NONE
    assert message.authentication_level == AuthenticationLevel.NONE
    assert message.transaction_id is not None


@pytest.mark.conformance("NMFMB-012")
def test_durable_messages_survive_a_restart_and_volatile_ones_do_not(tmp_path: Any) -> None:
    with tiercel.open(tmp_path) as qm:
        news = qm.create_queue(r".\private$\news")
        for durable in True, False:
            endpoint = wcf.Endpoint(
                qm, "net.msmq://localhost/private/news", exactly_once=False, durable=durable
            )
            send(endpoint, int(durable))
        assert news.count == 2
    with tiercel.open(tmp_path) as qm:
        news = qm.queue(r".\private$\news")
        assert [envelope.arguments for envelope in envelopes(news.receive(0))] == [{"order": {"id": 1}}]
        assert news.count == 0


@pytest.mark.conformance("NMFMB-010", "NMFMB-024", "NMFMB-043", "NMFMB-046")
def test_a_session_is_one_message(orders: wcf.Endpoint, queue: Any) -> None:
    with orders.client() as client, client.session() as session:
        for number in 1, 2, 3:
            session.send(ACTION, {"order": {"id": number}}, namespace=NAMESPACE)
            assert queue.count == 0
    assert queue.count == 1
    message = queue.receive(0)
    assert message.body[4] == 3
    assert [envelope.arguments["order"]["id"] for envelope in envelopes(message)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("action", "body"), [("urn:pay", {}), (ACTION, {"a b": 1}), (ACTION, {"": 1}), (ACTION, {"a": {"1": 2}})]
)
def test_names_that_no_receiver_could_read_are_refused(
    orders: wcf.Endpoint, queue: Any, action: str, body: dict[str, Any]
) -> None:
    with orders.client() as client, pytest.raises(IllegalPropertyVariantTypeError, match="valid XML name"):
        client.send(action, body)
    assert queue.count == 0


def test_a_session_that_fails_sends_nothing(orders: wcf.Endpoint, queue: Any) -> None:
    def fail() -> None:
        with orders.client() as client, client.session() as session:
            session.send(ACTION)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert queue.count == 0


def test_the_callers_transaction(qm: Any, orders: wcf.Endpoint, queue: Any) -> None:
    with orders.client() as client:
        with qm.transaction() as transaction:
            client.send(ACTION, transaction=transaction)
            client.send(ACTION, transaction=transaction)
            assert queue.count == 0
        assert queue.count == 2
        transaction = qm.begin_transaction()
        client.send(ACTION, transaction=transaction)
        transaction.abort()
    assert queue.count == 2


@pytest.mark.conformance("NMFMB-008")
def test_exactly_once_needs_a_transactional_queue(qm: Any) -> None:
    """The transactions have identifiers of their own, and none is left behind."""
    with pytest.raises(MqError) as caught:
        send(wcf.Endpoint(qm, "net.msmq://localhost/private/news"), 1)
    assert "transaction" in str(caught.value)
    assert qm.queue(r".\private$\news").count == 0


@pytest.mark.conformance("NMFMB-008")
def test_each_datagram_has_a_transaction_with_an_identifier_of_its_own(
    qm: Any, orders: wcf.Endpoint, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []
    begin = qm.begin_transaction

    def noted() -> Any:
        begun.append(begin())
        return begun[-1]

    monkeypatch.setattr(qm, "begin_transaction", noted)
    send(orders, 1, 2, 3)
    assert len({transaction.id for transaction in begun} - {UUID(int=0)}) == 3
    assert not any(transaction.is_active for transaction in begun)
    assert len({queue.receive(0).transaction_id for _ in range(3)} - {None}) == 3


@pytest.mark.conformance("NMFMB-009")
def test_best_effort_goes_to_a_queue_without_transactions(qm: Any) -> None:
    send(wcf.Endpoint(qm, "net.msmq://localhost/private/news", exactly_once=False), 1)
    assert qm.queue(r".\private$\news").receive(0).transaction_id is None


@pytest.mark.conformance("NMFMB-041")
def test_a_queue_that_does_not_exist(qm: Any) -> None:
    with pytest.raises(QueueNotFoundError) as caught:
        send(wcf.Endpoint(qm, "net.msmq://localhost/private/none"), 1)
    assert caught.value.code == 0xC00E0003


@pytest.mark.conformance("NMFMB-036")
def test_a_public_queue_by_the_directory(qm: Any) -> None:
    asked = []

    def directory(path: tiercel.PathName) -> UUID:
        asked.append(str(path))
        return GUID

    endpoint = wcf.Endpoint(qm, "net.msmq://srv/orders", use_active_directory=True, directory=directory)
    with pytest.raises(MqError, match=f"(?i)PUBLIC={GUID}"):
        send(endpoint, 1)  # nobody can reach it, but that is its name
    assert asked == [r"srv\orders"]


@pytest.mark.conformance("NMFMB-037")
def test_without_a_directory_there_is_no_public_name(qm: Any) -> None:
    with pytest.raises(UnsupportedFormatNameOperationError, match="there is no directory"):
        send(wcf.Endpoint(qm, "net.msmq://srv/orders", use_active_directory=True), 1)


@pytest.mark.parametrize(
    ("options", "encoding"),
    [
        ({"encoding": "text"}, Encoding.SOAP12_UTF8),
        ({"encoding": "text-utf-16"}, Encoding.SOAP12_UTF16),
        ({"encoding": "mtom"}, Encoding.MTOM),
        ({"soap": "1.1"}, Encoding.SOAP11_UTF8),
        ({"soap": "1.1", "encoding": "text-utf-16"}, Encoding.SOAP11_UTF16),
        ({"addressing": "2004/08"}, Encoding.BINARY),
        ({"addressing": "none"}, Encoding.BINARY),
    ],
)
@pytest.mark.conformance("NMFMB-002", "NMFMB-026")
def test_versions_and_encodings(qm: Any, queue: Any, options: dict[str, str], encoding: Encoding) -> None:
    endpoint = wcf.Endpoint(qm, ADDRESS, **options)  # type: ignore[arg-type]
    send(endpoint, 7)
    message = queue.receive(0)
    assert read_body(message.body).preamble.encoding is encoding
    (envelope,) = envelopes(message)
    assert (envelope.action, envelope.to, envelope.soap.value) == (
        ACTION,
        ADDRESS,
        options.get("soap", "1.2"),
    )
    assert str(envelope.arguments["order"]["id"]) == "7"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"soap": "1.3"}, "1.1, 1.2"),
        ({"soap": "1.1", "encoding": "binary"}, "text, text-utf-16 with SOAP 1.1"),
        ({"encoding": "nonsense"}, "binary, mtom, text, text-utf-16 with SOAP 1.2"),
        ({"addressing": "2.0"}, "1.0, 2004/08, none"),
        ({"transfer": "tcp"}, "native, srmp, srmp_secure"),
        ({"durable": False}, "exactly-once messages must be durable"),
    ],
)
def test_invalid_settings(qm: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameterError, match=said):
        wcf.Endpoint(qm, ADDRESS, **options)


def test_invalid_addresses(qm: Any) -> None:
    with pytest.raises(IllegalFormatNameError):
        wcf.Endpoint(qm, "http://localhost/private/orders")


def test_headers(orders: wcf.Endpoint, queue: Any) -> None:
    extra = ET.Element("{urn:x}Tenant")
    extra.text = "blue"
    with orders.client() as client:
        sent = client.send(ACTION, message_id=GUID, headers=(extra,))
    assert sent == GUID
    (envelope,) = envelopes(queue.receive(0))
    assert envelope.message_id == f"urn:uuid:{GUID}"
    assert envelope.headers[-1].tag == "{urn:x}Tenant"
    assert envelope.headers[-1].text == "blue"
    assert repr(envelope) == f"<Envelope {ACTION}>"


def test_a_body_as_an_element(orders: wcf.Endpoint, queue: Any) -> None:
    body = ET.Element("{urn:o}Submit")
    ET.SubElement(body, "{urn:o}id").text = "7"
    with orders.client() as client:
        client.send(ACTION, body)
    (envelope,) = envelopes(queue.receive(0))
    assert ET.tostring(envelope.body) == ET.tostring(body)


def test_values_that_cannot_be_sent(orders: wcf.Endpoint, queue: Any) -> None:
    with orders.client() as client:
        with pytest.raises(IllegalPropertyVariantTypeError):
            client.send(ACTION, {"what": object()})
        client.send(ACTION, {"what": 1})
    assert queue.count == 1


def test_dead_letters_and_lifetime(qm: Any, queue: Any) -> None:
    dead = "net.msmq://localhost/private/dead"
    options: dict[str, Any]
    for options in {}, {"dead_letter_queue": "none"}, {"dead_letter_queue": dead, "time_to_live_s": 60}:
        send(wcf.Endpoint(qm, ADDRESS, **options), 1)
    first, second, third = (queue.receive(0) for _ in range(3))
    assert (first.negative_journaling, second.negative_journaling) == (True, False)
    assert (third.negative_journaling, str(third.dead_letter_queue)) == (True, r".\private$\dead")
    assert (first.time_to_be_received, third.time_to_be_received) == (0xFFFFFFFF, 60)
