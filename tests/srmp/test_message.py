"""The properties of a message, both ways: [MC-MQSRM] 3.1.5.1.1, 3.1.7.2.4."""

import itertools
import re
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given

from tiercel.model.codes import Acknowledgements
from tiercel.model.errors import DecodeError
from tiercel.model.format_name import DirectFormatName, FormatName, MulticastFormatName, UnreadableFormatName
from tiercel.model.identifiers import NULL_GUID, MessageId, TxSequenceId
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.srmp.envelope import CommitmentReceiptRequest, Envelope, Msmq, Services
from tiercel.srmp.envelope_reader import read_envelope
from tiercel.srmp.http_request import read_http_request
from tiercel.srmp.message import envelope_of, message_of, read_message
from tiercel.srmp.queue_urls import read_queue
from tiercel.srmp.request import read_srmp, write_srmp

from .strategies import direct, messages
from .vectors import changed, document, http, load, posted, read

NOW = 1_800_000_000
FLAGS_2 = list(itertools.product([False, True], repeat=2))
FLAGS_3 = list(itertools.product([False, True], repeat=3))
SENDER = UUID("caf195ea-615c-4264-ae08-11a4e60194c0")
RECEIPTS = "http://me/MSMQ/PRIVATE$/order_queue$"
QUEUE = direct("http://there/msmq/private$/Orders")


def sent(**properties: object) -> Message:
    return Message(destination_queue=QUEUE, sent_time=1_000_000, id=MessageId(SENDER, 7), **properties)  # type: ignore[arg-type]


def written(message: Message) -> Envelope:
    return envelope_of(message, stream_sender=SENDER, receipts_url=RECEIPTS)


def msmq(message: Message) -> Msmq:
    found = written(message).msmq
    assert found is not None
    return found


def of_document(data: bytes) -> Message:
    return read_message(read_srmp(posted(data)), NOW)


@given(messages())
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    envelope = written(message)
    request = write_srmp(envelope, message.body, message.extension, content_guid=SENDER)
    arrived = read_message(read_srmp(read_http_request(request.encode())), NOW)
    assert arrived.soap_compound_message == request.encode()
    for name in ("soap_compound_message", "soap_envelope", "soap_header", "soap_body"):
        setattr(arrived, name, type(getattr(arrived, name))())
    assert arrived.administration_queue == message.administration_queue
    expected = replace(message, arrival_time=NOW, time_to_be_received=INFINITE)
    assert arrived == expected
    assert arrived.destination_queue.wire_name == message.destination_queue.wire_name  # type: ignore[union-attr]
    arrived.check()


class TestRequest:
    @pytest.mark.conformance("SRMP-003")
    def test_the_target_is_in_lower_case_and_to_keeps_its_case(self) -> None:
        request = write_srmp(written(sent()))
        assert request.head.target == "/msmq/private$/orders"
        assert b"<to>http://there/msmq/private$/Orders</to>" in request.body
        assert (
            write_srmp(read("04b_stream_receipt1").envelope).head.target
            == "/msmq/private$/receipts?senderstream=xrntv"
        )

    def test_the_target_is_ascii(self) -> None:
        message = replace(sent(), destination_queue=direct("http://h/msmq/Größe 1"))
        assert write_srmp(written(message)).head.target == "/msmq/gr%C3%B6%C3%9Fe%201"

    def test_the_host_is_that_of_the_destination_with_its_port(self) -> None:
        message = replace(sent(), destination_queue=direct("HTTPS://[::1]:8443/msmq/q"))
        assert write_srmp(written(message)).head.header("Host") == "[::1]:8443"

    @pytest.mark.conformance("SRMP-010")
    @pytest.mark.parametrize(
        ("body", "extension"), [*itertools.product([None, b"", bytes(range(256))], repeat=2)]
    )
    def test_body_and_extension(self, body: bytes | None, extension: bytes | None) -> None:
        request = write_srmp(written(sent()), body, extension, content_guid=SENDER)
        found = read_srmp(read_http_request(request.encode()))
        assert (found.body and found.body.content) == body
        assert (found.extension and found.extension.content) == extension
        if body is None and extension is None:
            assert request.head.header("Content-Type") == "text/xml"
        if found.extension is not None:
            assert found.extension.content_id == f"extension@{SENDER}"

    @pytest.mark.conformance("SRMP-007")
    def test_the_bytes_of_a_body_survive(self) -> None:
        request = write_srmp(written(sent()), bytes(range(256)), content_guid=SENDER)
        parts = request.body.split(b"--MSMQ - SOAP boundary, 0")
        envelope, body = parts[1], parts[2]
        assert envelope.startswith(b"\r\nContent-Type: text/xml; charset=UTF-8\r\nContent-Length: ")
        head = [
            "",
            "Content-Type: application/octet-stream",
            "Content-Length: 256",
            f"Content-Id: body@{SENDER}",
        ]
        assert body == "\r\n".join([*head, "", ""]).encode() + bytes(range(256))

    @pytest.mark.parametrize("kind", ["body", "extension"])
    def test_two_parts_of_one_kind_are_refused(self, kind: str) -> None:
        data = load("06_all_properties")
        other = {"body": "extension", "extension": "body"}[kind]
        broken = data.replace(f"Content-Id: {other}@".encode(), f"Content-Id: {kind}@".encode())
        size = len(broken) - len(data)
        broken = broken.replace(b"Content-Length: 2164", f"Content-Length: {2164 + size}".encode())
        with pytest.raises(DecodeError, match="a second part"):
            read_srmp(read_http_request(broken))

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b"Content-Id: body@", b"Content-Id: bodi@"),
            (b"Content-Id: body@", b"Content-Xx: body@"),
            (b"text/xml; charset=UTF-8", b"text/xml; charset=UTF-7"),
            (b"text/xml; charset=UTF-8", b"text/sgml;charset=UTF-8"),
            (b"multipart/related", b"multipart/relative"[:-1]),
            (b"multipart/related; boundary=", b"multipart/related; boundarx="),
            (b"Content-Type: multipart", b"Content-Tipe: multipart"),
        ],
    )
    def test_a_request_that_names_its_parts_wrongly_is_refused(self, old: bytes, new: bytes) -> None:
        data = load("02_msmq_element")
        assert old in data
        assert len(old) == len(new)
        with pytest.raises(DecodeError):
            read_srmp(read_http_request(data.replace(old, new, 1)))

    @pytest.mark.parametrize("header", ["Host", "SOAPAction", "Proxy-Accept"])
    def test_other_headers_are_not_required(self, header: str) -> None:
        request = http("01_simple")
        headers = tuple(each for each in request.head.headers if each[0] != header)
        assert len(headers) == 4
        assert read_srmp(request._replace(head=request.head._replace(headers=headers))).body is not None

    @pytest.mark.conformance("SRMP-012")
    def test_receipts_are_single_part(self) -> None:
        names = (
            "03c_delivery_receipt",
            "03e_commitment_receipt",
            "04b_stream_receipt1",
            "11_final_stream_receipt_negative",
        )
        for name in names:
            request = write_srmp(read(name).envelope)
            assert request.head.header("Content-Type") == "text/xml"
            assert request.body.startswith(b"<se:Envelope")

    def test_the_root_part_may_be_named(self) -> None:
        data = load("07_rfc2387_framing").replace(b'start="<envelope@', b'start="<envelopf@')
        with pytest.raises(DecodeError, match="start"):
            read_srmp(read_http_request(data))


class TestPath:
    @pytest.mark.conformance("SRMP-035")
    @pytest.mark.parametrize(
        ("action", "label"), [("MSMQ:abc", "abc"), ("MSMQ:", ""), ("abc", ""), ("msmq:abc", ""), ("", "")]
    )
    def test_the_label_follows_the_prefix(self, action: str, label: str) -> None:
        assert of_document(changed("02_msmq_element", "<action>MSMQ:<", f"<action>{action}<")).label == label

    @pytest.mark.conformance("SRMP-036")
    def test_an_empty_label_is_written_with_its_prefix(self) -> None:
        assert written(sent()).path.action == "MSMQ:"

    @pytest.mark.conformance("SRMP-039")
    def test_the_destination(self) -> None:
        assert of_document(document("02_msmq_element")).destination_queue == direct(
            "http://machine2/msmq/private$/simpleq"
        )
        multicast = read_message(read("05_pgm"), NOW).destination_queue
        assert isinstance(multicast, MulticastFormatName)
        assert str(multicast) == "MULTICAST=234.1.1.1:8001"

    @pytest.mark.conformance("SRMP-039")
    def test_the_destination_must_fit_the_transport(self) -> None:
        with pytest.raises(DecodeError, match=r"MULTICAST=234\.1\.1\.1:8001' does not fit the transport"):
            of_document(document("05_pgm"))
        with pytest.raises(DecodeError, match="does not fit the transport"):
            read_srmp(http("02_msmq_element"), over_multicast=True)

    @pytest.mark.parametrize(
        "path",
        [
            "/msmq/private$/q",
            "/MSMQ/PRIVATE$/Q",
            "/msmq/private%24/q",
            "/msmq/private$/q?a=b",
            "/msmq\\private$\\q",
        ],
    )
    def test_one_queue_has_many_urls(self, path: str) -> None:
        data = changed(
            "02_msmq_element", "<to>http://machine2/msmq/private$/simpleQ", f"<to>http://machine2{path}"
        )
        assert of_document(data).destination_queue == direct("http://machine2/msmq/private$/q")

    @pytest.mark.conformance("SRMP-040")
    @pytest.mark.parametrize(
        ("name", "to"),
        [
            ("DIRECT=HTTP://H/msmq/Q", "http://H/msmq/Q"),
            ("DIRECT=Https://h:1/MSMQ\\private$\\q", "https://h:1/MSMQ/private$/q"),
            ("MULTICAST=234.1.1.1:8001", "MSMQ:MULTICAST=234.1.1.1:8001"),
        ],
    )
    def test_to_is_a_url_or_a_multicast_address(self, name: str, to: str) -> None:
        assert written(replace(sent(), destination_queue=FormatName.parse(name))).path.to == to

    def test_other_names_cannot_be_carried(self) -> None:
        with pytest.raises(ValueError, match="SRMP cannot carry"):
            written(replace(sent(), destination_queue=FormatName.parse(r"DIRECT=OS:h\q")))

    @pytest.mark.conformance("SRMP-043")
    def test_the_source_queue_manager_is_believed(self) -> None:
        data = changed("02_msmq_element", "uuid:20503@caf195ea", "uuid:20503@00000000")
        message = of_document(data)
        assert message.id == MessageId(UUID("caf195ea-615c-4264-ae08-11a4e60194c0"), 20503)

    @pytest.mark.conformance("SRMP-042")
    @pytest.mark.parametrize("name", ["01_simple", "03a_receipts_request"])
    def test_a_message_without_msmq_has_no_id_of_its_own(self, name: str) -> None:
        assert of_document(document(name)).id == MessageId(NULL_GUID, 1)

    @pytest.mark.conformance("SRMP-045", "SRMP-046")
    @pytest.mark.parametrize(
        ("via", "name"),
        [
            ("http://h/msmq/q", "DIRECT=HTTP://h/msmq/q"),
            ("MSMQ:DIRECT=OS:h\\private$\\r", "DIRECT=OS:h\\private$\\r"),
            (
                "MSMQ:PUBLIC=caf195ea-615c-4264-ae08-11a4e60194c0",
                "PUBLIC=caf195ea-615c-4264-ae08-11a4e60194c0",
            ),
        ],
    )
    def test_the_response_queue(self, via: str, name: str) -> None:
        response = of_document(
            changed("10_routing_extras", "<via>http://machine1/msmq/private$/reply<", f"<via>{via}<")
        ).response_queue
        assert str(response) == name
        assert written(sent(response_queue=response)).path.via == via

    @pytest.mark.conformance("SRMP-046")
    def test_without_a_response_queue_there_is_no_rev(self) -> None:
        assert b"<rev>" not in write_srmp(written(sent())).body

    def test_an_unreadable_direct_name_is_kept(self) -> None:
        for text in ("http://h/elsewhere", "MSMQ:DIRECT=X:h"):
            name = read_queue(text)
            assert isinstance(name, UnreadableFormatName)
            assert written(sent(response_queue=name)).path.via == text


class TestTimes:
    @pytest.mark.conformance("SRMP-049")
    def test_the_time_to_reach_the_queue(self) -> None:
        assert of_document(document("02_msmq_element")).time_to_reach_queue == 345_600
        assert of_document(document("01_simple")).time_to_reach_queue == 86_400

    @pytest.mark.conformance("SRMP-050")
    def test_a_default_message_has_the_dates_of_the_example(self) -> None:
        example = read("02_msmq_element").envelope
        assert example.properties.sent_at is not None
        message = replace(sent(), sent_time=example.properties.sent_at)
        assert written(message).properties == example.properties
        assert example.msmq is not None
        assert msmq(message).ttrq == example.msmq.ttrq
        limited = replace(message, time_to_be_received=60)
        assert written(limited).properties.expires_at == message.sent_time + 60

    def test_no_limit(self) -> None:
        message = sent(time_to_reach_queue=INFINITE)
        assert b"<TTrq>20380119T031407</TTrq>" in write_srmp(written(message)).body
        assert message_of(written(message), NOW).time_to_reach_queue == INFINITE

    @pytest.mark.parametrize(
        "date", ["20380119T031407", "20380119T031408", "21500101T000000", "99991231T235959"]
    )
    def test_dates_from_2038_on_are_no_limit(self, date: str) -> None:
        assert (
            of_document(
                changed("02_msmq_element", "<TTrq>20070723T031140", f"<TTrq>{date}")
            ).time_to_reach_queue
            == INFINITE
        )

    def test_a_message_that_had_no_time_has_none(self) -> None:
        assert (
            of_document(changed("02_msmq_element", "<TTrq>20070723", "<TTrq>20070718")).time_to_reach_queue
            == 0
        )

    def test_a_message_without_sent_at_was_sent_when_it_arrived(self) -> None:
        message = of_document(re.sub(rb"<sentAt>.*?</sentAt>", b"", document("02_msmq_element")))
        assert (message.sent_time, message.time_to_reach_queue) == (NOW, 0)

    def test_messages_sent_after_2038_keep_their_date(self) -> None:
        message = replace(sent(), sent_time=2**31 + 5)
        envelope = read_envelope(write_srmp(written(message)).body).envelope
        assert envelope.properties.sent_at == 2**31 + 5
        assert message_of(envelope, NOW).time_to_reach_queue == INFINITE


class TestServices:
    @pytest.mark.conformance("SRMP-054")
    def test_a_plain_express_message_has_none(self) -> None:
        assert written(sent()).services is None
        assert written(sent(delivery=1)).services == Services(durable=True)
        assert b"<services" not in write_srmp(written(sent())).body

    def test_stream_messages_are_recoverable(self) -> None:
        assert of_document(document("04a_stream_msg1")).is_recoverable
        assert of_document(document("04a_stream_msg1")).delivery == 1
        assert of_document(document("02_msmq_element")).delivery == 0

    @pytest.mark.conformance("SRMP-058")
    @pytest.mark.parametrize(("positive", "negative"), FLAGS_2)
    def test_commitment_receipts(self, positive: bool, negative: bool) -> None:
        flags = "<positiveOnly/>" * positive + "<negativeOnly/>" * negative
        data = changed("06_all_properties", "<positiveOnly/><negativeOnly/>", flags)
        message = of_document(data)
        wanted = Acknowledgements.POS_RECEIVE * positive | Acknowledgements.NEG_RECEIVE * negative
        assert message.acknowledgements == Acknowledgements.POS_ARRIVAL | wanted
        assert message.final_ack_required

    def test_the_addresses_of_receipts_stay_apart(self) -> None:
        services = read("03a_receipts_request").envelope.services
        assert services is not None
        assert services.delivery_receipt_request == "http://machine1/MSMQ/private$/receipts"
        commitment = CommitmentReceiptRequest(
            "http://machine1/MSMQ/private$/deliverydone", positive_only=True, negative_only=True
        )
        assert services.commitment_receipt_request == commitment

    @pytest.mark.conformance("SRMP-061")
    @pytest.mark.parametrize(
        ("requested", "flags"),
        [
            (Acknowledgements.FULL_RECEIVE, (True, True)),
            (Acknowledgements.NACK_RECEIVE, (False, True)),
            (Acknowledgements.POS_RECEIVE, (True, False)),
            (Acknowledgements.NACK_REACH_QUEUE, None),
            (Acknowledgements.NONE, None),
        ],
    )
    def test_requests_for_receive_acknowledgements(
        self, requested: int, flags: tuple[bool, bool] | None
    ) -> None:
        services = written(
            sent(acknowledgements=requested, administration_queue=direct("HTTP://a/msmq/admin"))
        ).services
        expected = (
            None
            if flags is None
            else Services(False, None, CommitmentReceiptRequest("http://a/msmq/admin", *flags))
        )
        assert services == expected

    def test_receipts_cannot_be_sent_to_other_names(self) -> None:
        admin = FormatName.parse(r"DIRECT=OS:h\admin")
        assert written(sent(acknowledgements=15, administration_queue=admin)).services is None


class TestStream:
    @pytest.mark.conformance("SRMP-068")
    def test_the_first_and_the_second_message(self) -> None:
        stream = TxSequenceId(5, 6)
        first = sent(transaction_id=1, tx_sequence_id=stream, tx_sequence_number=1)
        second = replace(first, tx_sequence_number=2, previous_tx_sequence_number=1)
        one, two = written(first).stream, written(second).stream
        assert one is not None
        assert two is not None
        assert (one.current, one.previous, one.start) == (1, None, RECEIPTS)
        assert (two.current, two.previous, two.start) == (2, 1, None)
        assert str(one.stream_id) == f"uid:{SENDER}\\{5 << 32 | 6}"
        assert written(sent()).stream is None

    def test_the_previous_number(self) -> None:
        assert of_document(document("04e_stream_msg3")).previous_tx_sequence_number == 2
        assert of_document(document("04a_stream_msg1")).previous_tx_sequence_number == 0
        assert of_document(document("09_stream_gap")).previous_tx_sequence_number == 1


class TestMsmq:
    @pytest.mark.conformance("SRMP-079")
    def test_without_the_element_there_are_defaults(self) -> None:
        message = of_document(document("01_simple"))
        assert (message.message_class, message.priority, message.body_type) == (0, 3, 0)
        assert not message.positive_journaling
        assert not message.negative_journaling
        assert b"<Msmq " in write_srmp(written(sent())).body

    @pytest.mark.conformance("SRMP-081")
    @pytest.mark.parametrize(("positive", "negative"), FLAGS_2)
    def test_journaling(self, positive: bool, negative: bool) -> None:
        message = sent(positive_journaling=positive, negative_journaling=negative)
        data = write_srmp(written(message)).body
        assert (b"<Journal/>" in data, b"<DeadLetter/>" in data) == (positive, negative)
        arrived = of_document(data)
        assert (arrived.positive_journaling, arrived.negative_journaling) == (positive, negative)

    @pytest.mark.conformance("SRMP-082", "SRMP-084", "SRMP-086")
    def test_zeros_are_written(self) -> None:
        data = write_srmp(written(sent(hash_algorithm=0))).body
        assert b"<Correlation>AAAAAAAAAAAAAAAAAAAAAAAAAAA=</Correlation><App>0</App>" in data
        assert b"<HashAlgorithm>0</HashAlgorithm>" in data
        assert of_document(data).hash_algorithm == 0
        without = re.sub(rb"<(Correlation|App|HashAlgorithm)>.*?</\1>", b"", data)
        arrived = of_document(without)
        assert (arrived.correlation_id, arrived.application_tag, arrived.hash_algorithm) == (
            bytes(20),
            0,
            0x8004,
        )

    @pytest.mark.conformance("SRMP-082", "SRMP-083", "SRMP-084", "SRMP-085", "SRMP-086")
    @pytest.mark.parametrize("tag", [0, 36, 2**32 - 1])
    @pytest.mark.parametrize("algorithm", [0, 32771, 32772, 32780, 32782])
    def test_numbers_tracing_and_connector_type(self, tag: int, algorithm: int) -> None:
        message = sent(
            application_tag=tag,
            hash_algorithm=algorithm,
            body_type=8,
            tracing=True,
            connector_type=SENDER,
            correlation_id=bytes(range(20)),
        )
        arrived = of_document(write_srmp(written(message)).body)
        for name in (
            "application_tag",
            "hash_algorithm",
            "body_type",
            "tracing",
            "connector_type",
            "correlation_id",
        ):
            assert getattr(arrived, name) == getattr(message, name)

    @pytest.mark.conformance("SRMP-087")
    @pytest.mark.parametrize(("first", "last", "connector"), FLAGS_3)
    def test_the_boundaries_of_a_transaction(self, first: bool, last: bool, connector: bool) -> None:
        guid = SENDER if connector else NULL_GUID
        message = sent(first_in_transaction=first, last_in_transaction=last, connector_queue_manager=guid)
        data = write_srmp(written(message)).body
        assert (b"<Eod>" in data) is (first or last or connector)
        arrived = of_document(data)
        assert (arrived.first_in_transaction, arrived.last_in_transaction) == (first, last)
        assert arrived.connector_queue_manager == guid

    @pytest.mark.conformance("SRMP-088")
    @pytest.mark.parametrize(("kind", "name"), [(0, "p"), (24, ""), (24, "p")])
    def test_a_provider_has_type_and_name(self, kind: int, name: str) -> None:
        message = sent(authentication_provider_type=kind, authentication_provider_name=name)
        data = write_srmp(written(message)).body
        assert f"<Provider><Type>{kind}</Type><Name>{name}</Name></Provider>".encode() in data
        assert b"<Provider>" not in write_srmp(written(sent())).body

    @pytest.mark.conformance("SRMP-090")
    def test_lists_of_queues(self) -> None:
        message = of_document(document("06_all_properties"))
        assert [str(name) for name in message.response_queues] == [
            "DIRECT=HTTP://machine1/msmq/private$/r1",
            "DIRECT=HTTP://machine1/msmq/private$/r2",
        ]
        names = (
            direct("http://a/msmq/my queue"),
            FormatName.parse(r"DIRECT=OS:b\q"),
            FormatName.parse(f"PUBLIC={SENDER}"),
        )
        arrived = of_document(write_srmp(written(sent(destination_queues=names))).body)
        assert arrived.destination_queues == names

    @pytest.mark.parametrize("queue", ["a b", "a\u00a0b", "a\u3000b"])
    def test_names_with_blanks_in_lists(self, queue: str) -> None:
        names = direct(f"http://h/msmq/{queue}"), direct("http://h/msmq/q")
        arrived = of_document(write_srmp(written(sent(response_queues=names))).body)
        assert arrived.response_queues == names


def test_a_url_keeps_its_spelling_in_the_name() -> None:
    name = of_document(document("04b_stream_receipt1")).destination_queue
    assert isinstance(name, DirectFormatName)
    assert name.wire_name == "http://machine1/MSMQ/private$/receipts?SenderStream=XRntV"
    assert str(name) == "DIRECT=HTTP://machine1/msmq/private$/receipts"
