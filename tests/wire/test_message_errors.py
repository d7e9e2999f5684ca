"""What no packet can carry: the error names the property, the limit and the present value."""

import pytest

from tiercel.model.errors import (
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    IllegalPropertyVariantTypeError,
    LabelTooLongError,
    MessageTooLargeError,
    MqError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import DirectFormatName, FormatName, UnreadableFormatName
from tiercel.model.identifiers import NULL_GUID, MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage

QUEUE = DirectFormatName.from_wire(r"OS:h\private$\q")
GUID = "00112233-4455-6677-8899-aabbccddeeff"
U16, U32 = 0xFFFF, 0xFFFFFFFF


def message_with(**attributes: object) -> Message:
    """A message that is changed after it was made, so that only encoding can find the mistake."""
    message = Message(destination_queue=QUEUE)
    for name, value in attributes.items():
        setattr(message, name, value)
    return message


def assert_refused(message: Message, error: type[MqError], *words: str) -> None:
    with pytest.raises(error) as caught:
        encode_message(message)
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("priority", 7),
        ("delivery", 1),
        ("message_class", U16),
        ("acknowledgements", 15),
        ("body_type", U32),
        ("application_tag", U32),
        ("time_to_reach_queue", U32),
        ("time_to_be_received", U32),
        ("sent_time", U32),
        ("hash_algorithm", U32),
        ("encryption_algorithm", U32),
    ],
)
def test_numbers_beyond_their_field(name: str, limit: int) -> None:
    encode_message(message_with(**{name: limit}))
    for value in (limit + 1, -1, 1 << 70):
        error = IllegalPropertyValueError
        assert_refused(
            message_with(**{name: value}),
            error,
            f"message {name}",
            f"limit: 0 to {limit}",
            f"present: {value}",
        )


@pytest.mark.parametrize(
    ("name", "limit"),
    [("transaction_id", 0xFFFFF), ("tx_sequence_number", U32), ("previous_tx_sequence_number", U32)],
)
def test_numbers_of_a_transaction(name: str, limit: int) -> None:
    encode_message(message_with(**{"transaction_id": 1, name: limit}))
    for value in (limit + 1, -1):
        message = message_with(**{"transaction_id": 1, name: value})
        words = (f"message {name}", f"limit: 0 to {limit}", f"present: {value}")
        assert_refused(message, IllegalPropertyValueError, *words)


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [("privacy_level", 1 << 32, U32), ("sender_id_type", 3, 2), ("sender_id_type", 4, 2)],
)
def test_numbers_of_the_security_header(name: str, value: int, limit: int) -> None:
    message = message_with(**{"sender_id": b"s", name: value})
    assert_refused(message, IllegalPropertyValueError, f"limit: 0 to {limit}", f"present: {value}")


@pytest.mark.parametrize(
    ("attributes", "present"),
    [
        ({"id": MessageId(NULL_GUID, 2**32)}, 2**32),
        ({"id": MessageId(NULL_GUID, -1)}, -1),
        ({"transaction_id": 1, "tx_sequence_id": TxSequenceId(timestamp=2, ordinal=2**32)}, 2**32),
        ({"transaction_id": 1, "tx_sequence_id": TxSequenceId(timestamp=2, ordinal=-1)}, -1),
        ({"transaction_id": 1, "tx_sequence_id": TxSequenceId(timestamp=2**32, ordinal=1)}, 2**32),
    ],
    ids=["uniquifier", "uniquifier -1", "ordinal", "ordinal -1", "timestamp"],
)
def test_numbers_inside_identifiers(attributes: dict[str, object], present: int) -> None:
    message = message_with(**attributes)
    words = ("limit: 0 to 4294967295", f"present: {present}")
    assert_refused(message, IllegalPropertyValueError, *words)


def test_provider_type() -> None:
    message = message_with(authentication_provider_name="CSP", authentication_provider_type=1 << 32)
    assert_refused(
        message, IllegalPropertyValueError, "authentication_provider_type", "limit: 0 to 4294967295"
    )


class TestLabel:
    @pytest.mark.conformance("DMPR-091")
    @pytest.mark.parametrize(
        "label", ["x" * 249, "\N{BAR CHART}" * 124 + "x"], ids=["249", "124 pairs and 1"]
    )
    def test_249_utf16_units_fit(self, label: str) -> None:
        assert encode_message(Message(destination_queue=QUEUE, label=label))

    @pytest.mark.conformance("DMPR-091")
    @pytest.mark.parametrize("label", ["x" * 250, "\N{BAR CHART}" * 125], ids=["250", "125 pairs"])
    def test_250_do_not(self, label: str) -> None:
        with pytest.raises(LabelTooLongError, match=r"present: 250, limit: 249"):
            Message(label=label)
        assert_refused(message_with(label=label), LabelTooLongError, "present: 250", "limit: 249")


class TestSizes:
    @pytest.mark.parametrize("size", [0, 19, 21])
    def test_correlation_id_has_20_bytes(self, size: int) -> None:
        message = message_with(correlation_id=bytes(size))
        assert_refused(
            message, IllegalPropertySizeError, "message correlation_id", f"present: {size}", "limit: 20"
        )

    def test_a_packet_of_4_mib_fits_and_one_byte_more_does_not(self) -> None:
        room = 0x400000 - len(encode_message(message_with()))
        assert len(encode_message(message_with(body=bytes(room)))) == 0x400000
        message = message_with(body=bytes(room + 1))
        assert_refused(message, MessageTooLargeError, "limit: 4194304", "present: 4194308")

    def test_a_body_of_4_mib_and_a_byte(self) -> None:
        message = message_with(body=bytes(0x400001))
        assert_refused(message, MessageTooLargeError, "message packet", "limit: 4194304")

    @pytest.mark.parametrize("name", ["sender_id", "symmetric_key", "signature", "sender_certificate"])
    def test_security_data_of_64_kib(self, name: str) -> None:
        assert encode_message(message_with(**{name: bytes(65535)}))
        message = message_with(**{name: bytes(65536)})
        words = (f"message {name}", "limit: 65535", "present: 65536")
        assert_refused(message, IllegalPropertySizeError, *words)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("body", "text", "bytes"),
        ("body", None, "bytes"),
        ("extension", [1], "bytes"),
        ("label", b"bytes", "str"),
        ("label", 5, "str"),
        ("label", None, "str"),
        ("body", memoryview(b"12345678").cast("I"), "bytes"),
        ("extension", bytearray(b"e"), "bytes"),
        ("destination_queue", r"DIRECT=OS:h\q", "a FormatName"),
        ("administration_queue", r"DIRECT=OS:h\q", "a FormatName"),
        ("response_queue", r"DIRECT=OS:h\q", "a FormatName"),
        ("id", MessageId("no guid", 1), "UUID"),  # type: ignore[arg-type]
        ("priority", "3", "int"),
        ("priority", 3.0, "int"),
        ("delivery", None, "int"),
        ("message_class", "NORMAL", "int"),
        ("correlation_id", "x" * 20, "bytes"),
        ("sent_time", 1.5, "int"),
        ("transaction_id", "1", "int"),
        ("tracing_queue", GUID, "UUID"),
        ("connector_type", GUID, "UUID"),
        ("id", None, "MessageId"),
        ("sender_id", "S-1-5-7", "bytes"),
    ],
)
def test_wrong_types(name: str, value: object, expected: str) -> None:
    message = message_with(tracing=True, **{name: value})
    present = "str" if isinstance(value, MessageId) else type(value).__name__
    words = (f"message {name}", f"present: {present}", expected)
    assert_refused(message, IllegalPropertyVariantTypeError, *words)


class TestQueues:
    def test_a_message_needs_a_destination(self) -> None:
        assert_refused(Message(), UnsupportedFormatNameOperationError, "the message has no destination")

    @pytest.mark.parametrize("name", [r"DIRECT=OS:h\q;JOURNAL", r"DIRECT=OS:h\SYSTEM$;DEADLETTER"])
    def test_nobody_sends_to_a_read_only_queue(self, name: str) -> None:
        message = message_with(destination_queue=FormatName.parse(name))
        assert_refused(message, UnsupportedFormatNameOperationError, "message destination_queue")

    def test_a_subqueue_is_no_journal(self) -> None:
        assert encode_message(message_with(destination_queue=FormatName.parse(r"DIRECT=OS:h\q;sub")))

    def test_a_name_longer_than_its_count_can_say(self) -> None:
        message = message_with(destination_queue=UnreadableFormatName("x" * 32767))
        words = ("message destination_queue", "limit: 65535", "present: 65536")
        assert_refused(message, IllegalPropertySizeError, *words)
        assert encode_message(message_with(destination_queue=UnreadableFormatName("x" * 32766)))

    def test_a_listed_name_cannot_hold_a_nul(self) -> None:
        message = message_with(response_queues=(UnreadableFormatName("OS:a\0b"),))
        assert_refused(message, UnsupportedFormatNameOperationError, "a list of queues")

    @pytest.mark.parametrize("attribute", ["destination_queue", "administration_queue", "response_queue"])
    @pytest.mark.parametrize(
        "name",
        [
            f"PUBLIC={GUID};JOURNAL",
            rf"PRIVATE={GUID}\1;JOURNAL",
            f"MACHINE={GUID};DEADLETTER",
            f"CONNECTOR={GUID}",
            f"DL={GUID}",
            "MULTICAST=234.1.1.1:8001",
        ],
    )
    def test_queues_that_no_packet_can_name(self, attribute: str, name: str) -> None:
        message = message_with(**{attribute: FormatName.parse(name)})
        if attribute == "destination_queue" and name.startswith("MULTICAST"):  # only stored, and never sent
            again = decode_message(UserMessage(encode_message(message)))
            assert again.destination_queue == FormatName.parse(name)
            return
        assert_refused(
            message, UnsupportedFormatNameOperationError, f"message {attribute}", str(FormatName.parse(name))
        )

    @pytest.mark.parametrize("attribute", ["destination_queues", "administration_queues", "response_queues"])
    @pytest.mark.parametrize(
        "name",
        [
            f"PUBLIC={GUID};JOURNAL",
            rf"PRIVATE={GUID}\1;JOURNAL",
            f"MACHINE={GUID};DEADXACT",
            f"CONNECTOR={GUID}",
            r"DIRECT=OS:a\private$\q;JOURNAL",
        ],
    )
    def test_queues_that_no_list_can_name(self, attribute: str, name: str) -> None:
        message = message_with(**{attribute: (QUEUE, FormatName.parse(name))})
        assert_refused(message, UnsupportedFormatNameOperationError, str(FormatName.parse(name)))

    @pytest.mark.conformance("DMPR-088")
    @pytest.mark.parametrize(
        "attributes",
        [
            {"destination_queue": FormatName.parse(r"DIRECT=OS:a\q,DIRECT=OS:b\q")},
            {"destination_queues": (QUEUE, FormatName.parse(r"DIRECT=OS:a\q,DIRECT=OS:b\q"))},
        ],
        ids=["as the destination", "inside a list"],
    )
    def test_a_multiple_element_name_is_refused(self, attributes: dict[str, object]) -> None:
        assert_refused(message_with(**attributes), UnsupportedFormatNameOperationError)

    @pytest.mark.conformance("DMPR-088")
    def test_names_are_empty_by_default(self) -> None:
        message = Message()
        assert (message.response_queue, message.administration_queue) == (None, None)
        assert message.destination_queues == message.administration_queues == message.response_queues == ()
