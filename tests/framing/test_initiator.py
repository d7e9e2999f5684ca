"""The sending machine: [MS-NMFMB] 3.2."""

from typing import Any
from uuid import UUID

import pytest

from tiercel import nbfx
from tiercel.framing.addresses import Address, TransferProtocol
from tiercel.framing.binding import Binding
from tiercel.framing.body import read_body
from tiercel.framing.initiator import Initiator
from tiercel.framing.records import Encoding, Mode
from tiercel.framing.requests import (
    Abort,
    CloseQueue,
    Commit,
    CreateTransaction,
    Enqueue,
    OpenQueue,
    ReadDirectory,
)
from tiercel.model.codes import (
    AuthenticationLevel,
    DeliveryGuarantee,
    EncryptionAlgorithm,
    HashAlgorithm,
    PrivacyLevel,
    QueueAccess,
    SenderIdType,
    ShareMode,
)
from tiercel.model.errors import (
    InsufficientResourcesError,
    InvalidHandleError,
    InvalidParameterError,
    QueueNotFoundError,
    TiercelError,
)
from tiercel.model.format_name import FormatName

from .spy import Spy

ADDRESS = "net.msmq://srv/private/orders"
GUID = UUID("00112233-4455-6677-8899-AABBCCDDEEFF")


def envelope(text: str = "x") -> list[nbfx.Event]:
    return [("start", "", "r", "", ()), ("text", text), nbfx.END]


def opened(spy: Spy, address: str = ADDRESS, **binding: Any) -> Initiator:
    initiator = Initiator(Address.parse(address), Binding(**binding), computer_name="here")
    spy.run(initiator.open())
    return initiator


NATIVE, SRMP, SECURE = TransferProtocol


@pytest.mark.parametrize(
    ("transfer", "directory", "name"),
    [
        (NATIVE, False, r"DIRECT=OS:srv\orders"),
        (NATIVE, True, f"PUBLIC={GUID}"),
        (SRMP, False, "DIRECT=HTTP://srv/msmq/orders"),
        (SECURE, False, "DIRECT=HTTPS://srv/msmq/orders"),
    ],
)
@pytest.mark.conformance("NMFMB-036", "NMFMB-039", "NMFMB-040")
def test_the_queue_is_opened_by_the_name_of_its_transfer(transfer: Any, directory: bool, name: str) -> None:
    spy = Spy(directory={r"srv\orders": GUID})
    opened(spy, "net.msmq://srv/orders", transfer=transfer, use_active_directory=directory)
    assert spy.of(OpenQueue) == [OpenQueue(FormatName.parse(name), QueueAccess.SEND, ShareMode.DENY_NONE)]
    assert len(spy.of(ReadDirectory)) == directory
    assert str(spy.of(OpenQueue)[0].name).upper() == name.upper()


@pytest.mark.parametrize("transfer", [SRMP, SECURE])
@pytest.mark.conformance("NMFMB-039")
def test_the_directory_has_no_names_for_srmp(transfer: TransferProtocol) -> None:
    """The other two of the six combinations: .NET refuses them too (NMFMB trap 13)."""
    with pytest.raises(InvalidParameterError, match="the directory has no names for SRMP"):
        Binding(transfer=transfer, use_active_directory=True)


@pytest.mark.conformance("NMFMB-036")
def test_localhost_in_the_directory_is_this_computer() -> None:
    spy = Spy(directory={r"here\orders": GUID})
    opened(spy, "net.msmq://localhost/orders", use_active_directory=True)
    assert [str(request.path) for request in spy.of(ReadDirectory)] == [r"here\orders"]


@pytest.mark.conformance("NMFMB-037")
def test_a_failure_of_the_directory_is_the_callers() -> None:
    spy = Spy({ReadDirectory: InsufficientResourcesError("the directory")})
    with pytest.raises(InsufficientResourcesError):
        opened(spy, "net.msmq://srv/orders", use_active_directory=True)
    assert not spy.of(OpenQueue)


@pytest.mark.conformance("NMFMB-040")
def test_nothing_is_sent_before_the_queue_is_open() -> None:
    spy = Spy()
    with pytest.raises(InvalidHandleError, match="the queue is not open"):
        spy.run(Initiator(Address.parse(ADDRESS), Binding()).send(envelope()))
    assert not spy.asked


@pytest.mark.conformance("NMFMB-041")
def test_a_failure_to_open_is_the_callers() -> None:
    spy = Spy({OpenQueue: QueueNotFoundError("orders")})
    initiator = Initiator(Address.parse(ADDRESS), Binding())
    with pytest.raises(QueueNotFoundError) as caught:
        spy.run(initiator.open())
    assert caught.value.code == 0xC00E0003
    with pytest.raises(InvalidHandleError):
        spy.run(initiator.send(envelope()))
    spy.run(initiator.close())
    assert [type(request) for request in spy.asked] == [OpenQueue]


@pytest.mark.conformance("NMFMB-001", "NMFMB-008", "NMFMB-011", "NMFMB-027", "NMFMB-042", "NMFMB-044")
def test_each_datagram_is_a_message_in_a_transaction_of_its_own() -> None:
    spy = Spy()
    initiator = opened(spy)
    for text in "one", "two", "three":
        spy.run(initiator.send(envelope(text)))
        assert isinstance(spy.asked[-1], Commit)
    bodies = [read_body(message.body) for message in spy.queued]
    assert len(bodies) == 3
    for body, text in zip(bodies, ["one", "two", "three"], strict=True):
        assert (body.preamble.mode, body.preamble.via) == (Mode.SINGLETON_SIZED, ADDRESS)
        assert body.preamble.encoding is Encoding.BINARY
        assert body.envelopes == (nbfx.encode(envelope(text)),)
    transactions = [request.transaction for request in spy.of(Enqueue)]
    assert len({*transactions} - {None}) == 3
    assert [request.transaction for request in spy.of(Commit)] == transactions
    assert all(message.body.startswith(b"\0\1\0\1\4") for message in spy.queued)


@pytest.mark.conformance("NMFMB-009")
def test_best_effort_uses_no_transaction() -> None:
    spy = Spy()
    initiator = opened(spy, exactly_once=False)
    spy.run(initiator.send(envelope()))
    assert [request.transaction for request in spy.of(Enqueue)] == [None]
    assert not spy.of(CreateTransaction)


def test_the_callers_transaction_is_the_callers_to_commit() -> None:
    spy = Spy()
    initiator = opened(spy)
    spy.run(initiator.send(envelope(), "mine"))
    assert [request.transaction for request in spy.of(Enqueue)] == ["mine"]
    assert not spy.of(CreateTransaction)
    assert not spy.of(Commit)


@pytest.mark.conformance("NMFMB-010", "NMFMB-043", "NMFMB-046")
def test_a_session_is_one_message() -> None:
    spy = Spy()
    initiator = opened(spy, session=True)
    for text in "one", "two", "three":
        spy.run(initiator.send(envelope(text)))
        assert not spy.queued
    spy.run(initiator.close())
    (message,) = spy.queued
    assert message.body[4] == 3
    assert message.body.count(b"\0\1\0\1") == 1
    assert message.body.endswith(b"\7")
    framed = read_body(message.body)
    assert framed.preamble.encoding is Encoding.BINARY_SESSION
    assert len(framed.envelopes) == 3
    assert [type(request) for request in spy.asked] == [
        OpenQueue,
        CreateTransaction,
        Enqueue,
        Commit,
        CloseQueue,
    ]


@pytest.mark.conformance("NMFMB-047", "NMFMB-048")
def test_a_session_without_envelopes_sends_nothing() -> None:
    spy = Spy()
    spy.run(opened(spy, session=True).close())
    assert [type(request) for request in spy.asked] == [OpenQueue, CloseQueue]


def test_an_abandoned_session_sends_nothing() -> None:
    spy = Spy()
    initiator = opened(spy, session=True)
    spy.run(initiator.send(envelope()))
    spy.run(initiator.abandon())
    assert [type(request) for request in spy.asked] == [OpenQueue, CloseQueue]


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.conformance("NMFMB-045", "NMFMB-048")
def test_a_failure_to_enqueue_is_the_callers(session: bool) -> None:
    spy = Spy({Enqueue: InsufficientResourcesError("orders")})
    initiator = opened(spy, session=session)
    with pytest.raises(InsufficientResourcesError):
        spy.run(sent_and_closed(initiator))
    assert [type(request) for request in spy.asked][:4] == [OpenQueue, CreateTransaction, Enqueue, Abort]
    assert len(spy.of(Enqueue)) == 1  # no retry
    spy.run(initiator.close())
    assert len(spy.of(CloseQueue)) == 1


def sent_and_closed(initiator: Initiator) -> Any:
    yield from initiator.send(envelope())
    yield from initiator.close()


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.conformance("NMFMB-048")
def test_a_failure_to_close_is_the_callers(session: bool) -> None:
    spy = Spy({CloseQueue: TiercelError("no")})
    initiator = opened(spy, session=session)
    spy.run(initiator.send(envelope()))
    with pytest.raises(TiercelError, match="no"):
        spy.run(initiator.close())


def test_an_envelope_that_cannot_be_written_leaves_nothing_behind() -> None:
    spy = Spy()
    initiator = opened(spy)
    with pytest.raises(KeyError):
        spy.run(initiator.send([("start", "", "r", "", ()), ("text", object())]))  # type: ignore[list-item]
    spy.run(initiator.send(envelope()))
    assert read_body(spy.queued[0].body).envelopes == (nbfx.encode(envelope()),)


@pytest.mark.parametrize(
    ("volatile", "delivery"), [(True, DeliveryGuarantee.EXPRESS), (False, DeliveryGuarantee.RECOVERABLE)]
)
@pytest.mark.conformance("NMFMB-012", "NMFMB-017")
def test_properties_of_the_message(volatile: bool, delivery: DeliveryGuarantee) -> None:
    message = Binding(volatile=volatile, exactly_once=False).message(b"")
    assert message.delivery == delivery
    assert message.body_type == 0x1011
    assert message.sender_id_type == SenderIdType.NONE
    assert message.authentication_level == AuthenticationLevel.NONE


@pytest.mark.parametrize(
    ("transfer", "level"),
    [
        (TransferProtocol.NATIVE, AuthenticationLevel.SIG30),
        (TransferProtocol.SRMP, AuthenticationLevel.XML_SIG),
        (TransferProtocol.SECURE_SRMP, AuthenticationLevel.XML_SIG),
    ],
)
@pytest.mark.conformance("NMFMB-014")
def test_the_level_of_signed_messages(transfer: TransferProtocol, level: AuthenticationLevel) -> None:
    assert Binding(authenticated=True, transfer=transfer).message(b"").authentication_level == level


@pytest.mark.conformance("NMFMB-013", "NMFMB-015", "NMFMB-016")
def test_properties_of_a_signed_message() -> None:
    message = Binding(authenticated=True, encrypted=True, certificate=b"DER").message(b"")
    assert message.hash_algorithm == HashAlgorithm.SHA_256
    assert message.privacy_level == PrivacyLevel.ENHANCED
    assert message.encryption_algorithm == EncryptionAlgorithm.RC4
    assert (message.sender_id_type, message.sender_certificate) == (SenderIdType.NONE, b"DER")
    message = Binding(authenticated=True, windows_domain=True).message(b"")
    assert (message.sender_id_type, message.privacy_level) == (SenderIdType.SID, PrivacyLevel.NONE)


@pytest.mark.conformance("NMFMB-018")
def test_windows_domain_alone_means_nothing() -> None:
    assert Binding(windows_domain=True).message(b"") == Binding().message(b"")


def test_exactly_once_is_durable() -> None:
    with pytest.raises(InvalidParameterError, match="must be durable"):
        Binding(volatile=True)
