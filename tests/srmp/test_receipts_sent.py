"""Receipts for messages that arrived: delivery, commitment, stream and final. [MC-MQSRM] 3.1.1.3, 3.1.7.3."""

from dataclasses import replace

import pytest

from tiercel.engine.machine import Write
from tiercel.model.codes import MessageClass
from tiercel.srmp.actions import Dial
from tiercel.srmp.envelope import Decision, Envelope
from tiercel.srmp.http_request import read_http_request
from tiercel.srmp.message import read_message
from tiercel.srmp.request import read_srmp
from tiercel.srmp.settings import Settings
from tiercel.store.memory_store import MemoryStore
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

from .test_bad_input import with_envelope
from .vectors import changed, document, load, read
from .world import Side

USER, STREAM = "02_msmq_element", "04a_stream_msg1"
DELIVERY_TO, COMMITMENT_TO = (
    "http://machine1/MSMQ/private$/receipts",
    "http://machine1/MSMQ/private$/deliverydone",
)
RECEIPTS_TO = "http://machine1/MSMQ/private$/receipts?SenderStream=XRntV"


@pytest.fixture
def side() -> Side:
    side = Side(name="MACHINE2")
    side.create("simpleq")
    side.create("tsimpleq", transactional=True)
    return side


def post(side: Side, name: str, *changes: tuple[str, str]) -> None:
    data = document(name)
    for old, new in changes:
        assert old.encode() in data, old
        data = data.replace(old.encode(), new.encode(), 1)
    assert side.post(with_envelope(name, data).encode()) == 200


def receipts(side: Side) -> list[Envelope]:
    """What leaves for machine1, one receipt after the other; the other side accepts all."""
    found: list[Envelope] = []
    while side.actions:
        match side.actions.pop(0):
            case Dial(number):
                side.run(lambda number=number: side.srmp.connected(number, "192.0.2.8"))  # type: ignore[misc]
            case Write(number, data):
                found.append(read_srmp(read_http_request(data)).envelope)
                side.answer(number)
    return found


def masked(envelope: Envelope) -> Envelope:
    """Without its own id and the times."""
    assert envelope.msmq is not None
    path = replace(envelope.path, id=read("02_msmq_element").envelope.path.id)
    msmq = replace(envelope.msmq, source_qm_guid=path.id.lineage, ttrq=0)
    delivery, commitment = envelope.delivery_receipt, envelope.commitment_receipt
    return replace(
        envelope,
        path=path,
        msmq=msmq,
        properties=replace(envelope.properties, sent_at=0),
        delivery_receipt=None if delivery is None else replace(delivery, received_at=0),
        commitment_receipt=None if commitment is None else replace(commitment, decided_at=0),
    )


class TestDeliveryAndCommitment:
    @pytest.mark.conformance(
        "SRMP-002", "SRMP-057", "SRMP-060", "SRMP-071", "SRMP-077", "SRMP-121", "SRMP-198"
    )
    def test_the_conversation_of_section_4_3(self, side: Side) -> None:
        post(side, "03a_receipts_request")
        assert [masked(each) for each in receipts(side)] == [masked(read("03c_delivery_receipt").envelope)]
        side.box("simpleq").receive()
        (commitment,) = receipts(side)
        expected = masked(read("03e_commitment_receipt").envelope)
        assert commitment.path.to == COMMITMENT_TO  # the example has the other address (trap 26)
        assert masked(commitment) == replace(expected, path=replace(expected.path, to=COMMITMENT_TO))

    def test_their_hosts_are_named_by_strangers(self, side: Side) -> None:
        """So looking them up may not delay what applications send, even to the same host."""
        post(side, "03a_receipts_request")
        assert side.dialled().is_for_receipts
        side.to("machine3", "q").send(b"1")
        assert not side.dialled().is_for_receipts

    def test_the_name_of_a_proxy_is_ours(self) -> None:
        side = Side(name="MACHINE2", settings=Settings(proxy=("proxy", 3128)))
        side.create("simpleq")
        post(side, "03a_receipts_request")
        assert not side.dialled().is_for_receipts

    @pytest.mark.conformance("SRMP-121")
    def test_a_duplicate_is_not_confirmed_again(self, side: Side) -> None:
        request = f"<deliveryReceiptRequest><sendTo>{DELIVERY_TO}</sendTo></deliveryReceiptRequest>"
        asks = ("</properties>", f"</properties><services>{request}</services>")
        post(side, USER, asks)
        assert len(receipts(side)) == 1
        post(side, USER, asks)
        assert receipts(side) == []

    @pytest.mark.conformance("SRMP-058", "SRMP-059", "SRMP-072", "SRMP-165")
    @pytest.mark.parametrize("positive", [False, True])
    @pytest.mark.parametrize("negative", [False, True])
    @pytest.mark.parametrize("is_read", [False, True])
    def test_a_decision_is_told_as_asked(
        self, side: Side, positive: bool, negative: bool, is_read: bool
    ) -> None:
        flags = "<positiveOnly/>" * positive + "<negativeOnly/>" * negative
        asks = f"<commitmentReceiptRequest><sendTo>{COMMITMENT_TO}</sendTo>{flags}</commitmentReceiptRequest>"
        post(side, USER, ("</properties>", f"</properties><services>{asks}</services>"))
        box = side.box("simpleq")
        if is_read:
            box.receive()
        else:
            box.purge()
        found = [each.commitment_receipt.decision for each in receipts(side) if each.commitment_receipt]
        decision, is_asked = (Decision.POSITIVE, positive) if is_read else (Decision.NEGATIVE, negative)
        assert found == [decision] * is_asked

    @pytest.mark.conformance("SRMP-168")
    def test_an_aborted_read_decides_nothing(self, side: Side) -> None:
        request = f"<sendTo>{COMMITMENT_TO}</sendTo><positiveOnly/>"
        asks = f"<services><commitmentReceiptRequest>{request}</commitmentReceiptRequest></services>"
        post(side, STREAM, ("</properties>", f"</properties>{asks}"))
        transaction = side.begin()
        side.box("tsimpleq").receive(transaction=transaction)
        side.abort(transaction)
        assert receipts(side) == []
        with side.transaction() as transaction:
            side.box("tsimpleq").receive(transaction=transaction)
        assert [each.commitment_receipt is not None for each in receipts(side)] == [True]

    @pytest.mark.conformance("SRMP-164")
    def test_a_purged_message_is_a_dead_letter_here(self, side: Side) -> None:
        post(side, USER, ("<Priority>3</Priority>", "<Priority>3</Priority><DeadLetter/>"))
        side.box("simpleq").purge()
        assert len(side.dead_letters.bodies()) == 1

    def test_an_imported_message_whose_envelope_cannot_be_read_has_none(self, side: Side) -> None:
        message = read_message(read("03a_receipts_request"), int(side.now))
        message.soap_envelope = "<not an envelope \ud800"
        packet = UserMessage(encode_message(message, over_http=True))
        queue = side.box("simpleq").state
        side.run(lambda: side.engine.delivery.arrive(packet, queue))
        assert side.box("simpleq").bodies() == [packet.body]
        assert receipts(side) == []

    @pytest.mark.conformance("SRMP-078")
    def test_a_receipt_is_sent_again_until_it_arrives(self, side: Side) -> None:
        post(side, "03a_receipts_request")
        number = side.connect()
        (first,) = side.sent()
        side.answer(number, 503)
        side.sleep(20)
        side.connect()
        assert side.sent() == [first]


class TestStreamReceipts:
    @pytest.mark.conformance(
        "SRMP-067", "SRMP-073", "SRMP-076", "SRMP-119", "SRMP-133", "SRMP-135", "SRMP-199"
    )
    def test_the_conversation_of_section_4_4(self, side: Side) -> None:
        pairs = (
            (STREAM, "04b_stream_receipt1"),
            ("04c_stream_msg2", "04d_stream_receipt2"),
            ("04e_stream_msg3", "04f_stream_receipt3"),
        )
        for message, receipt in pairs:
            post(side, message)
            side.sleep(0.6)
            (found,) = receipts(side)
            expected = masked(read(receipt).envelope)
            assert found.path.via.casefold() == expected.path.via.casefold()
            assert masked(replace(found, path=replace(found.path, via=expected.path.via))) == expected
        assert len(side.box("tsimpleq").bodies()) == 3

    @pytest.mark.conformance("SRMP-108")
    def test_one_receipt_covers_messages_that_come_together(self, side: Side) -> None:
        for number in range(1, 8):
            post_stream(side, number)
            side.sleep(0.3)
        assert receipts(side) == []
        side.sleep(0.2)
        assert ordinals(side) == [7]

    @pytest.mark.conformance("SRMP-109")
    def test_it_waits_for_ten_seconds_at_most(self, side: Side) -> None:
        found = []
        for number in range(1, 41):
            post_stream(side, number)
            side.sleep(0.3)
            found += [(ordinal, number) for ordinal in ordinals(side)]
        assert found == [(34, 34)]
        side.sleep(0.25)
        assert ordinals(side) == [40]
        post_stream(side, 41)
        side.sleep(0.45)
        assert ordinals(side) == []

    @pytest.mark.conformance("SRMP-129", "SRMP-130")
    def test_a_duplicate_repairs_a_lost_receipt(self, side: Side) -> None:
        post_stream(side, 1)
        side.sleep(0.6)
        assert ordinals(side) == [1]
        post_stream(side, 1)
        side.sleep(0.6)
        assert ordinals(side) == [1]
        assert side.box("tsimpleq").state.count == 1

    @pytest.mark.conformance("SRMP-098", "SRMP-099")
    def test_they_go_to_the_right_url_after_a_restart(self, side: Side) -> None:
        post_stream(side, 1)
        side.kill()
        post_stream(side, 2)
        side.sleep(0.6)
        (found,) = receipts(side)
        assert (found.path.to, found.stream_receipt and found.stream_receipt.last_ordinal) == (RECEIPTS_TO, 2)

    @pytest.mark.conformance("SRMP-122")
    def test_other_receipts_have_their_own_address(self, side: Side) -> None:
        services = (
            f"<services><deliveryReceiptRequest><sendTo>{DELIVERY_TO}</sendTo></deliveryReceiptRequest>"
            f"<commitmentReceiptRequest><sendTo>{COMMITMENT_TO}</sendTo><positiveOnly/>"
            "</commitmentReceiptRequest></services>"
        )
        dead_letter = ("<Priority>0</Priority>", "<Priority>0</Priority><DeadLetter/>")
        post(side, STREAM, ("</properties>", f"</properties>{services}"), dead_letter)
        side.sleep(0.6)
        side.box("tsimpleq").receive()
        found = [
            (
                each.path.to,
                each.delivery_receipt is not None,
                each.stream_receipt is not None,
                each.commitment_receipt is not None,
            )
            for each in receipts(side)
        ]
        assert sorted(found) == sorted(
            [
                (DELIVERY_TO, True, False, False),
                (RECEIPTS_TO, False, True, False),
                (COMMITMENT_TO, False, False, True),
                (RECEIPTS_TO, False, True, True),
            ]
        )


def post_stream(side: Side, number: int, stream: str = "4839986701558349830", **how: str) -> None:
    """Message `number` of a stream, as vectors 04a and 04c have them."""
    name = STREAM if number == 1 else "04c_stream_msg2"
    changes = [("\\4839986701558349830", f"\\{stream}")]
    if number > 1:
        changes.append(("<current>2<", f"<current>{number}<"))
    if how.get("previous"):
        changes.append(("</current>", f"</current><previous>{how['previous']}</previous>"))
    if how.get("dead_letter"):
        changes.append(("<Priority>0</Priority>", "<Priority>0</Priority><DeadLetter/>"))
    post(side, name, *changes)


def ordinals(side: Side) -> list[int]:
    return [each.stream_receipt.last_ordinal for each in receipts(side) if each.stream_receipt is not None]


class TestTheOrderOfAStream:
    @pytest.mark.conformance("SRMP-065", "SRMP-127", "SRMP-128", "SRMP-129")
    def test_what_is_not_next_is_ignored(self, side: Side) -> None:
        for number in (1, 3, 2, 3, 1):
            post_stream(side, number)
        box = side.box("tsimpleq")
        assert [message.tx_sequence_number for message in box.messages()] == [1, 2, 3]
        (info,) = side.run(lambda: side.engine.arrivals.streams.infos(box.state))
        assert info.sequence_number == 3

    @pytest.mark.conformance("SRMP-136")
    def test_management_sees_how_far_it_is(self, side: Side) -> None:
        queue = side.box("tsimpleq").state
        infos = []
        for number in (1, 1, 3, 2):
            side.sleep(10)
            post_stream(side, number)
            infos += side.run(lambda: side.engine.arrivals.streams.infos(queue))
        seen = [(each.sequence_number, each.reject_count) for each in infos]
        assert seen == [(1, 0), (1, 1), (1, 2), (2, 0)]
        info = infos[-1]
        assert str(info.sender_identifier) == "2744e4e1-2b48-43e8-b441-42745f280d53"
        assert info.last_access_time == int(side.now)
        assert str(info.format_name).casefold() == "direct=http://machine2/msmq/private$/tsimpleq"

    @pytest.mark.conformance("SRMP-127", "SRMP-134")
    def test_a_gap_that_the_sender_bridges_is_taken(self, side: Side) -> None:
        post_stream(side, 1)
        post_stream(side, 4, previous="3")
        post_stream(side, 4, previous="1")
        side.sleep(0.6)
        assert ordinals(side) == [4]

    @pytest.mark.conformance("SRMP-066", "SRMP-126")
    def test_only_a_first_message_with_start_begins_it(self, side: Side) -> None:
        start = document(STREAM)[document(STREAM).index(b"<start>") : document(STREAM).index(b"</start>") + 8]
        post(side, STREAM, (start.decode(), ""))
        post(side, "04c_stream_msg2", ("</current>", f"</current><previous>0</previous>{start.decode()}"))
        assert side.box("tsimpleq").state.count == 0

    @pytest.mark.conformance("SRMP-131", "SRMP-132")
    def test_an_older_stream_does_not_come_back(self, side: Side) -> None:
        post_stream(side, 1, "4839986701558349830")
        post_stream(side, 1, "4839986701558349831")
        assert ordinals(side) == [1], "the last receipt of the first stream leaves at once"
        post_stream(side, 1, "4839986701558349830")
        side.sleep(0.6)
        assert ordinals(side) == [1]
        assert side.box("tsimpleq").state.count == 2

    @pytest.mark.conformance("SRMP-064", "SRMP-137")
    def test_senders_and_queues_do_not_interfere(self, side: Side) -> None:
        side.create("other", transactional=True)
        post_stream(side, 1)
        post(side, STREAM, ("uid:2744e4e1", "uid:2744e4e2"))
        post(side, STREAM, ("tsimpleq", "other"))
        assert (side.box("tsimpleq").state.count, side.box("other").state.count) == (2, 1)

    @pytest.mark.conformance("SRMP-063")
    def test_both_spellings_of_the_element_are_read(self, side: Side) -> None:
        assert side.post(load(STREAM)) == 200
        data = changed("04c_stream_msg2", "<Stream ", "<stream ").replace(b"</Stream>", b"</stream>")
        assert side.post(with_envelope("04c_stream_msg2", data).encode()) == 200
        assert side.box("tsimpleq").state.count == 2

    @pytest.mark.conformance("SRMP-125")
    def test_its_order_does_not_depend_on_priority(self, side: Side) -> None:
        post(side, STREAM)
        post(side, "04c_stream_msg2", ("<Priority>0<", "<Priority>7<"))
        assert [message.tx_sequence_number for message in side.box("tsimpleq").messages()] == [1, 2]


class TestFinalStreamReceipts:
    @pytest.mark.conformance("SRMP-074", "SRMP-075", "SRMP-166")
    @pytest.mark.parametrize(
        ("how", "message_class"),
        [
            ("read", MessageClass.ACK_RECEIVE),
            ("purge", MessageClass.NACK_Q_PURGED),
            ("delete", MessageClass.NACK_Q_DELETED),
        ],
    )
    def test_the_end_of_a_message_is_told(self, side: Side, how: str, message_class: MessageClass) -> None:
        post_stream(side, 1, dead_letter="yes")
        side.sleep(0.6)
        receipts(side)
        box = side.box("tsimpleq")
        match how:
            case "read":
                box.receive()
            case "purge":
                box.purge()
            case _:
                box.delete()
        (found,) = receipts(side)
        assert found.msmq is not None
        assert found.stream_receipt is not None
        assert found.commitment_receipt is not None
        is_positive = message_class == MessageClass.ACK_RECEIVE
        assert (found.msmq.message_class, found.commitment_receipt.decision) == (
            message_class,
            Decision.POSITIVE if is_positive else Decision.NEGATIVE,
        )
        assert (found.path.to, found.stream_receipt.last_ordinal) == (RECEIPTS_TO, 1)

    @pytest.mark.conformance("SRMP-166")
    def test_without_dead_letter_there_is_none(self, side: Side) -> None:
        post_stream(side, 1)
        side.sleep(0.6)
        assert ordinals(side) == [1]
        side.box("tsimpleq").receive()
        assert receipts(side) == []

    @pytest.mark.conformance("SRMP-167")
    def test_it_is_right_after_a_restart_and_a_newer_stream(self, side: Side) -> None:
        post_stream(side, 1)
        post_stream(side, 2, dead_letter="yes")
        post_stream(side, 1, "4839986701558349831")
        side.sleep(0.6)
        receipts(side)
        side.kill()
        side.sleep(86400)
        side.box("tsimpleq").receive()
        side.box("tsimpleq").receive()
        (found,) = receipts(side)
        assert found.stream_receipt is not None
        assert found.path.to == RECEIPTS_TO
        assert (found.stream_receipt.stream_id.sequence.ordinal, found.stream_receipt.last_ordinal) == (6, 2)

    def test_it_survives_a_crash(self, side: Side) -> None:
        post_stream(side, 1, dead_letter="yes")
        side.box("tsimpleq").receive()
        side.kill()
        assert [each.commitment_receipt is not None for each in receipts(side)] == [True]

    @pytest.mark.conformance("SRMP-166")
    def test_it_is_sent_from_a_full_store(self, side: Side) -> None:
        """Its sender waits for it, and nothing would make the message end once more."""
        post_stream(side, 1, dead_letter="yes")
        side.sleep(0.6)
        receipts(side)
        assert isinstance(side.store, MemoryStore)
        side.store.max_bytes = side.store.size
        side.box("tsimpleq").receive()
        assert [each.commitment_receipt is not None for each in receipts(side)] == [True]


@pytest.mark.parametrize(
    ("host", "sent_to"),
    [
        ("漢字", "xn--p8s937b"),
        ("Büro.example:8080", "xn--bro-hoa.example:8080"),
        ("a\u2100b", "a%E2%84%80b"),  # a letter that IDNA makes "a/c" of
        ("漢" * 80, "%E6%BC%A2" * 80),  # no name of DNS
        ("漢..b", "%E6%BC%A2..b"),
    ],
)
def test_a_host_in_other_letters_does_not_stop_the_queue_manager(host: str, sent_to: str) -> None:
    """A stranger chooses where receipts go."""
    store = MemoryStore()
    side = Side(name="MACHINE2", store=store)
    side.create("simpleq")
    request = (
        f"<deliveryReceiptRequest><sendTo>http://{host}/msmq/private$/r</sendTo></deliveryReceiptRequest>"
    )
    post(side, USER, ("<Msmq ", f'<services se:mustUnderstand="1"><durable/>{request}</services><Msmq '))
    for each in (side, Side(name="MACHINE2", store=store)):  # and after a restart
        number = each.connect()
        (data,) = each.sent()
        assert read_http_request(data).head.header("Host") == sent_to
        each.run(lambda each=each, number=number: each.srmp.disconnected(number))  # type: ignore[misc]


@pytest.mark.parametrize("name", ["deliveryReceiptRequest", "commitmentReceiptRequest"])
def test_a_receipt_cannot_be_asked_for_in_a_journal(side: Side, name: str) -> None:
    """No packet can name a journal: receiving the message failed, and it was gone."""
    others = f"<deliveryReceiptRequest><sendTo>{DELIVERY_TO}</sendTo></deliveryReceiptRequest>"
    commitment = f"<sendTo>{COMMITMENT_TO}</sendTo><positiveOnly/>"
    others += f"<commitmentReceiptRequest>{commitment}</commitmentReceiptRequest>"
    journal = others.replace(
        f"<{name}><sendTo>http://machine1/MSMQ/private$/", f"<{name}><sendTo>http://h/msmq/q;journal?"
    )
    for request, status in (others, 200), (journal, 400):
        services = f'<services se:mustUnderstand="1">{request}</services><Msmq '
        data = document(USER).replace(b"<Msmq ", services.encode(), 1)
        assert side.post(with_envelope(USER, data).encode()) == status
    assert len(side.box("simpleq").bodies()) == 1


def test_a_stored_message_that_asks_for_it_can_be_received(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiercel.srmp.envelope_reader._url", str)  # as in 0.2
    delivery = f"<deliveryReceiptRequest><sendTo>{DELIVERY_TO}</sendTo></deliveryReceiptRequest>"
    commitment = "<sendTo>http://h/msmq/q;journal</sendTo><positiveOnly/>"
    request = f"{delivery}<commitmentReceiptRequest>{commitment}</commitmentReceiptRequest>"
    post(side, USER, ("<Msmq ", f'<services se:mustUnderstand="1">{request}</services><Msmq '))
    assert side.box("simpleq").receive().body == read(USER).body.content  # type: ignore[union-attr]
    assert len(receipts(side)) == 1
