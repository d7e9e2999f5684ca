"""Envelopes as others write them: [MC-MQSRM] 2.2.2 to 2.2.7."""

import re

import pytest

from tiercel.message_security.xml_signature import XMLDSIG, XmlSignature
from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import NULL_GUID, MessageId
from tiercel.srmp.envelope import MSMQ, RP, SE, SRMP, Envelope
from tiercel.srmp.envelope_reader import read_envelope

from .vectors import changed, document, read

ALL = "06_all_properties"
STREAM = "08_lowercase_stream"
# The elements of a message that has all but those of a stream; `via` is refused in other words.
NAMES = sorted(set(re.findall(r"<([A-Za-z]+)[ />]", document(ALL).decode())) - {"via"})


def envelope(document: bytes) -> Envelope:
    return read_envelope(document).envelope


def refused(document: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        read_envelope(document, 1000)
    assert caught.value.structure == "Envelope"
    assert 1000 <= caught.value.offset <= 1000 + len(document)
    return caught.value


class TestStructure:
    """2.2.2, 2.2.3"""

    @pytest.mark.conformance("SRMP-028")
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("http://schemas.xmlsoap.org/soap/envelope/", "http://schemas.xmlsoap.org/soap/envelope"),
            ("http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope"),
            ("<se:Body></se:Body>", ""),
            ("<se:Body></se:Body>", "<se:Other/><se:Body></se:Body>"),
            ("<se:Body></se:Body>", "<Body></Body>"),
            ("<se:Header>", "<se:Body/><se:Header>"),
            ("<se:Header>", "<se:Header/><se:Header>"),
            ("<path xmlns", '<path xmlns="http://schemas.xmlsoap.org/rp/"/><path xmlns'),
            ("<path xmlns", "<route xmlns"),
            ("http://schemas.xmlsoap.org/rp/", "http://schemas.xmlsoap.org/rp"),
        ],
    )
    def test_envelope_header_body_and_path(self, old: str, new: str) -> None:
        data = changed(ALL, old, new)
        if "route" in new:
            data = data.replace(b"</path>", b"</route>")
        refused(data)

    @pytest.mark.conformance("SRMP-028")
    def test_a_path_that_need_not_be_understood_in_another_namespace_is_absent(self) -> None:
        data = changed(ALL, f'"{RP}" se:mustUnderstand="1"', '"other"')
        assert refused(data).field == "Header.path"

    @pytest.mark.conformance("SRMP-029")
    def test_a_body_with_content_is_ignored(self) -> None:
        data = changed(ALL, "<se:Body></se:Body>", '<se:Body a="b"><x><y/>text</x></se:Body>')
        assert envelope(data) == envelope(document(ALL))
        assert read_envelope(data).body.raw == b'<se:Body a="b"><x><y/>text</x></se:Body>'

    @pytest.mark.conformance("SRMP-030")
    def test_prefixes_and_places_of_declarations_do_not_matter(self) -> None:
        data = document("02_msmq_element")
        prefixed = data.replace(
            f'xmlns="{SRMP}"'.encode(), f'xmlns:s="{SRMP}" xmlns:m="{MSMQ}" xmlns:r="{RP}"'.encode()
        )
        prefixed = prefixed.replace(f' xmlns="{RP}"'.encode(), b"").replace(f' xmlns="{MSMQ}"'.encode(), b"")
        for name in ("path", "action", "to", "id"):
            prefixed = re.sub(rf"(</?){name}\b".encode(), rf"\1r:{name}".encode(), prefixed)
        for name in ("properties", "expiresAt", "sentAt"):
            prefixed = re.sub(rf"(</?){name}\b".encode(), rf"\1s:{name}".encode(), prefixed)
        for name in re.findall(rb"<([A-Z]\w*)", prefixed):
            prefixed = re.sub(rb"(</?)" + name + rb"\b", rb"\1m:" + name, prefixed)
        assert b"<m:Msmq><m:Class>" in prefixed
        assert envelope(prefixed) == envelope(data)

    @pytest.mark.conformance("SRMP-030")
    def test_an_element_of_another_namespace_is_absent(self) -> None:
        assert envelope(changed(ALL, MSMQ, "msmq.namespace")).msmq is None
        assert envelope(changed(ALL, "<App>", '<App xmlns="x">')).msmq != envelope(document(ALL)).msmq

    @pytest.mark.conformance("SRMP-031")
    @pytest.mark.parametrize("name", ["02_msmq_element", ALL, STREAM, "03c_delivery_receipt"])
    def test_children_may_come_in_any_order(self, name: str) -> None:
        data = document(name)
        headers = re.search(rb"<se:Header>(.*)</se:Header>", data, re.DOTALL)
        assert headers is not None
        children = re.findall(
            rb"<(path|properties|services|stream|deliveryReceipt|Msmq)\b(.*?)</\1>", headers[1], re.DOTALL
        )
        reversed_children = b"".join(
            b"<" + tag + rest + b"</" + tag + b">" for tag, rest in reversed(children)
        )
        msmq = re.search(
            rb'(<Msmq xmlns="msmq.namespace.xml">)(<Class>\d+</Class>)(<Priority>\d+</Priority>)', data
        )
        assert msmq is not None
        permuted = data.replace(headers[1], reversed_children).replace(msmq[0], msmq[1] + msmq[3] + msmq[2])
        assert permuted != data
        assert envelope(permuted) == envelope(data)

    @pytest.mark.conformance("SRMP-032")
    @pytest.mark.parametrize(
        "value",
        ["1", "true", '1" se:actor="', '1" se:actor="http://schemas.xmlsoap.org/soap/actor/next'],
    )
    def test_an_unknown_header_that_must_be_understood_is_refused(self, value: str) -> None:
        header = f'<x:Foreign xmlns:x="urn:x" se:mustUnderstand="{value}"/>'
        assert "must be understood" in refused(changed(ALL, "<se:Header>", f"<se:Header>{header}")).problem

    @pytest.mark.conformance("SRMP-032")
    @pytest.mark.parametrize(
        "attribute",
        ["", ' se:mustUnderstand="0"', ' mustUnderstand="1"', ' se:mustUnderstand="1" se:actor="urn:other"'],
    )
    def test_another_unknown_header_is_ignored_and_kept(self, attribute: str) -> None:
        header = f'<x:Foreign xmlns:x="urn:x"{attribute}><path/></x:Foreign>'
        parsed = read_envelope(changed(ALL, "<se:Header>", f"<se:Header>{header}"))
        assert parsed.envelope == envelope(document(ALL))
        assert header.encode() in parsed.header.raw

    @pytest.mark.conformance("SRMP-034")
    @pytest.mark.parametrize("name", NAMES)
    def test_an_element_that_appears_twice_is_refused(self, name: str) -> None:
        assert len(NAMES) == 38
        data = document(ALL)
        found = re.search(rf"<{name}\b[^>]*(/>|>.*?</{name}>)".encode(), data, re.DOTALL)
        assert found is not None
        assert refused(data.replace(found[0], 2 * found[0], 1)).problem == "appears twice"

    @pytest.mark.conformance("SRMP-034")
    @pytest.mark.parametrize("name", ["stream", "streamId", "current", "start", "sendReceiptsTo"])
    def test_an_element_of_a_stream_that_appears_twice_is_refused(self, name: str) -> None:
        data = document(STREAM)
        found = re.search(rf"<{name}\b[^>]*>.*?</{name}>".encode(), data)
        assert found is not None
        assert refused(data.replace(found[0], 2 * found[0], 1)).problem == "appears twice"
        if name == "stream":
            twin = found[0].replace(b"stream ", b"Stream ").replace(b"</stream>", b"</Stream>")
            assert refused(data.replace(found[0], found[0] + twin, 1)).problem == "appears twice"

    def test_elements_inside_of_a_text_are_refused(self) -> None:
        assert "text only" in refused(changed(ALL, "<to>", "<to><b/>")).problem


class TestPath:
    """2.2.4"""

    @pytest.mark.conformance("SRMP-035")
    def test_action(self) -> None:
        assert envelope(document("03a_receipts_request")).path.action == "Generic label"
        assert refused(changed(ALL, "action>", "x>").replace(b"/action>", b"/x>")).field == "path.action"
        label = "x" * 249
        assert (
            envelope(changed("02_msmq_element", "MSMQ:</action>", f"MSMQ:{label}</action>")).path.action
            == f"MSMQ:{label}"
        )
        assert (
            "249" in refused(changed("02_msmq_element", "MSMQ:</action>", f"MSMQ:{label}x</action>")).problem
        )
        long = "y" * 300
        assert envelope(changed("02_msmq_element", "MSMQ:</action>", f"{long}</action>")).path.action == long

    @pytest.mark.conformance("SRMP-039")
    @pytest.mark.parametrize(
        "to",
        [
            "",
            "ftp://h/msmq/q",
            "MSMQ:DIRECT=OS:h\\q",
            "MSMQ:MULTICAST=10.0.0.1:80",
            "MSMQ:MULTICAST=x",
            "DIRECT=http://h/msmq/q",
            "http://h/q",
            "http:///msmq/q",
            "http://h:99999/msmq/q",
            "http://h/msmq/" + "x" * 125,
            "http://h/msmq/q?" + "x" * 2048,
        ],
    )
    def test_to_must_name_a_queue(self, to: str) -> None:
        assert (
            refused(changed(ALL, "<to>http://machine2/msmq/private$/orders</to>", f"<to>{to}</to>")).field
            == "to"
        )

    @pytest.mark.conformance("SRMP-039")
    @pytest.mark.parametrize(
        "to",
        ["http://h/msmq/q", "https://h:8443/MSMQ/Private$/q?a=b", "HTTP://h/msmq/q", "\n http://h/msmq/q "],
    )
    def test_to_may_be_any_url_of_a_queue(self, to: str) -> None:
        data = changed(ALL, "<to>http://machine2/msmq/private$/orders</to>", f"<to>{to}</to>")
        assert envelope(data).path.to == to.strip()

    @pytest.mark.conformance("SRMP-041")
    @pytest.mark.parametrize(
        ("old", "new"), [("<id>uuid:", "<id>"), ("7001@", "7001"), ("7001@3", "7001@"), ("7001@", "@")]
    )
    def test_id_with_msmq(self, old: str, new: str) -> None:
        assert envelope(document(ALL)).path.id == MessageId(envelope(document(ALL)).path.id.lineage, 7001)
        assert refused(changed(ALL, old, new)).field == "id"

    @pytest.mark.conformance("SRMP-042")
    def test_id_without_msmq_is_required_and_ignored(self) -> None:
        data = changed("01_simple", "uuid:1@00000000-0000-0000-0000-000000000000", "anything")
        assert envelope(data).path.id == MessageId(NULL_GUID, 1)
        assert envelope(document("03a_receipts_request")).path.id == MessageId(NULL_GUID, 1)
        assert refused(re.sub(rb"<id>.*</id>", b"", data)).field == "path.id"

    @pytest.mark.conformance("SRMP-045")
    @pytest.mark.parametrize("empty", ["<via/>", "<via></via>", "<via> </via>"])
    def test_an_empty_via_is_no_response_queue(self, empty: str) -> None:
        data = re.sub(rb"<via>.*?</via>", empty.encode(), document(ALL))
        assert not envelope(data).path.via

    @pytest.mark.conformance("SRMP-045")
    @pytest.mark.parametrize("vias", ["", "<via/><via/>", '<via xmlns="x">http://h/msmq/q</via>'])
    def test_rev_has_one_via(self, vias: str) -> None:
        assert "one via" in refused(re.sub(rb"<via>.*?</via>", vias.encode(), document(ALL))).problem

    def test_via_must_be_a_url_or_a_format_name(self) -> None:
        assert (
            "format name"
            in refused(re.sub(rb"<via>.*?</via>", b"<via>mailto:a</via>", document(ALL))).problem
        )

    @pytest.mark.conformance("SRMP-047")
    @pytest.mark.parametrize(
        "extra", ["<from>a</from>", "<fwd><via>x</via></fwd>", "<relatesTo>u</relatesTo>", "<fault/>"]
    )
    def test_other_elements_have_no_effect(self, extra: str) -> None:
        assert envelope(changed(ALL, "<action>", f"{extra}<action>")) == envelope(document(ALL))
        with_reply = changed(ALL, "<sentAt>", "<inReplyTo>uuid:1</inReplyTo><sentAt>")
        assert envelope(with_reply) == envelope(document(ALL))


class TestHeaders:
    """2.2.5"""

    @pytest.mark.conformance("SRMP-048")
    @pytest.mark.parametrize(
        ("pattern", "new"),
        [
            ("<properties .*</properties>", ""),
            ("<expiresAt>.*?</expiresAt>", ""),
            ("<expiresAt>.*?</expiresAt>", "<expiresAt>soon</expiresAt>"),
            ("<sentAt>.*?</sentAt>", "<sentAt>20240230T000000</sentAt>"),
            ("<sentAt>.*?</sentAt>", "<sentAt>21060207T062816</sentAt>"),
        ],
    )
    def test_properties_and_expires_at_are_required(self, pattern: str, new: str) -> None:
        refused(re.sub(pattern.encode(), new.encode(), document(ALL)))

    def test_sent_at_is_optional(self) -> None:
        assert envelope(re.sub(rb"<sentAt>.*?</sentAt>", b"", document(ALL))).properties.sent_at is None

    @pytest.mark.parametrize("request_name", ["deliveryReceiptRequest", "commitmentReceiptRequest"])
    @pytest.mark.parametrize(
        "send_to", ["", "<sendTo/>", "<sendTo>MSMQ:DIRECT=OS:h\\q</sendTo>", "<sendTo>http://h/x</sendTo>"]
    )
    def test_a_receipt_request_needs_a_url(self, request_name: str, send_to: str) -> None:
        pattern = rf"<{request_name}><sendTo>.*?</sendTo>".encode()
        replacement = f"<{request_name}>{send_to}".encode().replace(b"\\", b"\\\\")
        refused(re.sub(pattern, replacement, document(ALL)))

    @pytest.mark.conformance("SRMP-062")
    def test_a_stream_needs_msmq(self) -> None:
        assert "Msmq" in refused(re.sub(rb"<Msmq .*</Msmq>", b"", document(STREAM))).problem

    @pytest.mark.conformance("SRMP-063")
    def test_both_spellings_of_stream(self) -> None:
        data = document(STREAM)
        capital = data.replace(b"<stream ", b"<Stream ").replace(b"</stream>", b"</Stream>")
        one, other = envelope(data).stream, envelope(capital).stream
        assert one is not None
        assert other is not None
        assert (one.tag, other.tag) == ("stream", "Stream")
        assert (one.stream_id, one.current, one.start) == (other.stream_id, other.current, other.start)

    @pytest.mark.parametrize(
        ("pattern", "new"),
        [
            ("<streamId>.*?</streamId>", ""),
            ("<streamId>uid:", "<streamId>"),
            ("<current>1</current>", ""),
            ("<current>1</current>", "<current>0</current>"),
            ("<current>1</current>", "<current>4294967296</current>"),
            ("<current>1</current>", "<current>1</current><previous>1</previous>"),
            ("<current>1</current>", "<current>1</current><previous>x</previous>"),
            ("<sendReceiptsTo>.*?</sendReceiptsTo>", ""),
            ("<sendReceiptsTo>http:", "<sendReceiptsTo>ftp:"),
        ],
    )
    def test_a_broken_stream_is_refused(self, pattern: str, new: str) -> None:
        data = re.sub(pattern.encode(), new.encode(), document(STREAM))
        assert data != document(STREAM)
        refused(data)

    def test_the_address_for_receipts_is_trimmed_and_keeps_its_query(self) -> None:
        stream = envelope(document("04a_stream_msg1")).stream
        assert stream is not None
        assert stream.start == "http://machine1/MSMQ/private$/receipts?SenderStream=XRntV"

    @pytest.mark.parametrize(
        ("name", "pattern", "new"),
        [
            ("03c_delivery_receipt", "<receivedAt>.*?</receivedAt>", ""),
            ("03c_delivery_receipt", "(<deliveryReceipt>.*?)<id>.*?</id>", r"\1"),
            ("03e_commitment_receipt", "<decidedAt>.*?</decidedAt>", ""),
            ("03e_commitment_receipt", "<decision>.*?</decision>", ""),
            ("03e_commitment_receipt", "positive", "Positive"),
            ("03e_commitment_receipt", "(<commitmentReceipt>.*?)<id>.*?</id>", r"\1<id>1</id>"),
            ("04b_stream_receipt1", "<streamId>.*?</streamId>", ""),
            ("04b_stream_receipt1", "<lastOrdinal>1</lastOrdinal>", ""),
            ("04b_stream_receipt1", "<lastOrdinal>1</lastOrdinal>", "<lastOrdinal>4294967296</lastOrdinal>"),
        ],
    )
    def test_a_broken_receipt_is_refused(self, name: str, pattern: str, new: str) -> None:
        data = re.sub(pattern.encode(), new.encode(), document(name))
        assert data != document(name)
        refused(data)


class TestMsmq:
    """2.2.6"""

    @pytest.mark.conformance("SRMP-080", "SRMP-085")
    @pytest.mark.parametrize("name", ["Class", "Priority", "BodyType", "SourceQmGuid", "TTrq"])
    def test_what_is_required(self, name: str) -> None:
        data = document(ALL)
        assert refused(re.sub(rf"<{name}>.*?</{name}>".encode(), b"", data)).field == f"Msmq.{name}"
        assert (
            refused(re.sub(rf"<{name}>.*?</{name}>".encode(), f"<{name}>x</{name}>".encode(), data)).field
            == name
        )

    @pytest.mark.conformance("SRMP-027", "SRMP-080", "SRMP-082", "SRMP-083")
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("Priority", "8"),
            ("Class", "65536"),
            ("App", "4294967296"),
            ("BodyType", "4294967296"),
            ("HashAlgorithm", "4294967296"),
            ("Type", "4294967296"),
            ("Correlation", "AAAAAAAAAAAAAAAAAAAAAAAAAA=="),
            ("Correlation", "*"),
            ("ConnectorType", "{fd74b8eb-2af7-4ac5-9405-074e315df392}"),
            ("ConnectorId", "1"),
            ("DestinationMqf", "mailto:x"),
            ("AdminMqf", "http://h/msmq/q " * 1025),
        ],
    )
    def test_what_is_out_of_range(self, name: str, value: str) -> None:
        data = re.sub(
            rf"<{name}>.*?</{name}>".encode(),
            f"<{name}>{value}</{name}>".encode(),
            document(ALL),
            flags=re.DOTALL,
        )
        assert refused(data).field == name

    @pytest.mark.conformance("SRMP-088")
    @pytest.mark.parametrize("name", ["Type", "Name"])
    def test_a_provider_needs_type_and_name(self, name: str) -> None:
        assert (
            refused(re.sub(rf"<{name}>.*?</{name}>".encode(), b"", document(ALL))).field == f"Provider.{name}"
        )

    @pytest.mark.parametrize(
        "name",
        [
            "Journal",
            "DeadLetter",
            "Correlation",
            "Trace",
            "ConnectorType",
            "App",
            "HashAlgorithm",
            "Eod",
            "Provider",
            "DestinationMqf",
            "AdminMqf",
            "ResponseMqf",
        ],
    )
    def test_what_is_optional(self, name: str) -> None:
        data = re.sub(rf"<{name}(/>|>.*?</{name}>)".encode(), b"", document(ALL), flags=re.DOTALL)
        assert data != document(ALL)
        assert envelope(data) != envelope(document(ALL))

    @pytest.mark.conformance("SRMP-091")
    def test_unknown_children_are_ignored(self) -> None:
        assert envelope(changed(ALL, "<Class>", "<Foo><Class>7</Class></Foo><Class>")) == envelope(
            document(ALL)
        )

    @pytest.mark.conformance("SRMP-090")
    @pytest.mark.parametrize("space", ["\n", "\r\n", " ", "\t", "\n      "])
    def test_names_are_separated_by_any_white_space(self, space: str) -> None:
        names = (
            "http://a/msmq/q",
            "https://b:1/msmq/private$/q",
            "MSMQ:DIRECT=OS:c\\q",
            "PUBLIC=fd74b8eb-2af7-4ac5-9405-074e315df392",
        )
        text = f"<AdminMqf>{space}{space.join(names)}{space}</AdminMqf>".replace("\\", "\\\\")
        msmq = envelope(re.sub(rb"<AdminMqf>.*?</AdminMqf>", text.encode(), document(ALL))).msmq
        assert msmq is not None
        assert msmq.admin_mqf == names


class TestSignature:
    """2.2.7; whether it is right is for the verifier."""

    def test_the_signed_octets_are_as_sent(self) -> None:
        signature = read("12_signed_body").envelope.signature
        assert signature is not None
        assert signature.signed_info in document("12_signed_body")
        assert signature.signed_info.startswith(b"<SignedInfo>")
        assert signature.references[0].uri == "cid:body@32221eda-9376-46df-b6ed-783091123831"

    @pytest.mark.parametrize("name", ["SignedInfo", "SignatureValue"])
    def test_an_incomplete_one_is_empty(self, name: str) -> None:
        data = re.sub(rf"<{name}>.*</{name}>".encode(), b"", document("12_signed_body"))
        assert envelope(data).signature == XmlSignature()

    def test_one_of_a_later_namespace_is_unknown(self) -> None:
        data = document("12_signed_body").replace(XMLDSIG.encode(), XMLDSIG.replace("02", "09").encode())
        assert envelope(data).signature is None


def test_the_namespace_of_soap() -> None:
    assert f'xmlns:se="{SE}"'.encode() in document(ALL)
