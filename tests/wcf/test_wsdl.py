"""WSDL and policy: [MS-NMFMB] 2 and 6.1."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree.ElementTree import Element

import pytest

from tiercel import nbfx, wcf
from tiercel.model.errors import DecodeError, InvalidParameterError
from tiercel.wcf.policy import Assertions
from tiercel.wcf.wsdl import read_wsdl

from .conftest import ACTION, ADDRESS, NAMESPACE

SAMPLE = (Path(__file__).resolve().parent.parent / "vectors" / "wsdl" / "order_processor.wsdl").read_text(
    "utf-8"
)
TRANSPORT = "http://schemas.microsoft.com/soap/msmq"
MSMQ = "http://schemas.microsoft.com/ws/06/2004/mspolicy/msmq"
ALL = Assertions(best_effort=True, session=True, volatile=True, authenticated=True, windows_domain=True)


@pytest.mark.conformance("NMFMB-003", "NMFMB-005", "NMFMB-006", "NMFMB-007")
def test_the_sample_of_the_specification() -> None:
    (port,) = read_wsdl(SAMPLE)
    assert port.name == "NetMsmqBinding_IOrderProcessor"
    assert port.address == "net.msmq://localhost/private/testq"
    assert port.soap.value == "1.2"
    assert port.assertions == ALL
    action = "http://SampleNamespace/IOrderProcessor/SubmitPurchaseOrder"
    assert port.actions == {"SubmitPurchaseOrder": action}


@pytest.mark.conformance("NMFMB-007")
def test_the_spelling_of_the_schema() -> None:
    (port,) = read_wsdl(SAMPLE.replace("msmq:Msmq", "msmq:"))
    assert port.assertions == ALL


@pytest.mark.conformance("NMFMB-005")
def test_prefixes_do_not_matter_and_namespaces_do() -> None:
    other_prefix = SAMPLE.replace("msmq:M", "q:M").replace("xmlns:msmq", "xmlns:msmq='urn:x' xmlns:q")
    other_prefix = other_prefix.replace("msmq:Authenticated", "q:Authenticated").replace("msmq:Win", "q:Win")
    assert read_wsdl(other_prefix)[0].assertions == ALL
    assert read_wsdl(SAMPLE.replace(MSMQ, MSMQ + "2"))[0].assertions == Assertions()


@pytest.mark.conformance("NMFMB-006")
def test_a_policy_that_is_not_attached_does_not_count() -> None:
    detached = SAMPLE.replace('<wsp:PolicyReference URI="#NetMsmqBinding_IOrderProcessor_policy"/>', "")
    assert read_wsdl(detached)[0].assertions == Assertions()


def test_a_policy_inside_of_the_binding() -> None:
    inline = f'<wsp:Policy><x:MsmqSession xmlns:x="{MSMQ}"/></wsp:Policy>'
    text = SAMPLE.replace('<wsp:PolicyReference URI="#NetMsmqBinding_IOrderProcessor_policy"/>', inline)
    assert read_wsdl(text)[0].assertions == Assertions(session=True)


def test_other_transports_are_left_out(qm: Any) -> None:
    text = SAMPLE.replace(TRANSPORT, "http://schemas.microsoft.com/soap/tcp")
    assert read_wsdl(text) == []
    with pytest.raises(InvalidParameterError, match="must describe one port of MSMQ, and has none"):
        wcf.Endpoint.from_wsdl(qm, text)


@pytest.mark.conformance("NMFMB-004")
def test_soap_11(qm: Any) -> None:
    text = SAMPLE.replace("soap12:", "soap:").replace("xmlns:soap:", "xmlns:")
    (port,) = read_wsdl(text)
    assert port.soap.value == "1.1"
    written = document(wcf.Service(wcf.Endpoint(qm, ADDRESS, soap="1.1")).wsdl("Orders"))
    found = written.find("{*}binding/{http://schemas.xmlsoap.org/wsdl/soap/}binding")
    assert found is not None
    assert found.get("transport") == TRANSPORT


def test_a_document_that_is_not_well_formed() -> None:
    with pytest.raises(DecodeError):
        read_wsdl("<wsdl")


def endpoint(qm: Any, *assertions: str) -> wcf.Endpoint:
    """The endpoint of the sample with other assertions."""
    start, end = SAMPLE.index("<msmq:MsmqVolatile"), SAMPLE.index("</wsp:All>")
    text = SAMPLE[:start] + "".join(f"<msmq:{each}/>" for each in assertions) + SAMPLE[end:]
    return wcf.Endpoint.from_wsdl(qm, text)


@pytest.mark.parametrize(
    ("assertions", "exactly_once", "session", "volatile"),
    [
        ((), True, False, False),
        (("MsmqBestEffort",), False, False, False),
        (("MsmqSession",), True, True, False),
        (("MsmqBestEffort", "MsmqVolatile"), False, False, True),
    ],
)
def test_an_endpoint_from_a_wsdl(
    qm: Any, assertions: tuple[str, ...], exactly_once: bool, session: bool, volatile: bool
) -> None:
    made = endpoint(qm, *assertions)
    assert str(made.address) == "net.msmq://localhost/private/testq"
    binding = made.binding
    assert (binding.exactly_once, binding.session, binding.volatile) == (exactly_once, session, volatile)


@pytest.mark.conformance("NMFMB-018")
def test_windows_domain_alone_means_nothing(qm: Any) -> None:
    assert endpoint(qm, "WindowsDomain").binding == endpoint(qm).binding
    message, plain = (each.binding.message(b"x") for each in (endpoint(qm, "WindowsDomain"), endpoint(qm)))
    assert message == plain


def test_an_authenticated_endpoint(qm: Any) -> None:
    plain, named = endpoint(qm, "Authenticated"), endpoint(qm, "Authenticated", "WindowsDomain")
    assert [(each.binding.authenticated, each.binding.windows_domain) for each in (plain, named)] == [
        (True, False),
        (True, True),
    ]
    for each in plain, named:
        text = wcf.Service(each).wsdl("Again")
        again = wcf.Endpoint.from_wsdl(qm, text)
        assert again.binding == each.binding


def test_one_of_several_ports(qm: Any) -> None:
    port = SAMPLE[SAMPLE.index("<wsdl:port") : SAMPLE.index("</wsdl:service>")]
    second = port.replace('name="Net', 'name="Other').replace("testq", "second")
    text = SAMPLE.replace("</wsdl:service>", second + "</wsdl:service>").replace("<msmq:Authenticated />", "")
    with pytest.raises(InvalidParameterError, match="Pass port="):
        wcf.Endpoint.from_wsdl(qm, text)
    chosen = wcf.Endpoint.from_wsdl(qm, text, port="OtherMsmqBinding_IOrderProcessor", exactly_once=False)
    assert str(chosen.address) == "net.msmq://localhost/private/second"


# Writing.


class Color(Enum):
    RED = 1


@wcf.data_contract(namespace="http://schemas.datacontract.org/2004/07/Orders")
@dataclass
class Order:
    id: int
    key: UUID
    color: Color
    when: datetime | None
    lines: list[str]
    span: timedelta
    next: "Order | None" = None


def document(text: str) -> Element:
    return nbfx.to_elements(nbfx.from_text(text)).root


@pytest.mark.conformance("NMFMB-003", "NMFMB-006", "NMFMB-007")
def test_what_is_written_can_be_read(qm: Any) -> None:
    made = wcf.Endpoint(qm, ADDRESS, exactly_once=False, durable=False, session=True, addressing="2004/08")
    service = wcf.Service(made)
    service.operation(ACTION, namespace=NAMESPACE, parameters={"order": Order, "many": list[Order]})(print)
    service.operation("http://example.org/IOrders/Cancel", namespace=NAMESPACE)(print)
    text = service.wsdl("Orders")
    (port,) = read_wsdl(text)
    assert port.address == ADDRESS
    assert port.assertions == Assertions(best_effort=True, session=True, volatile=True)
    assert (port.soap.value, port.addressing.value, port.encoding) == ("1.2", "2004/08", "binary")
    assert port.actions == {"Submit": ACTION, "Cancel": "http://example.org/IOrders/Cancel"}
    assert wcf.Endpoint.from_wsdl(qm, text).binding == made.binding
    assert "msmq:MsmqBestEffort" in text
    found = document(text).find("{*}binding/{http://schemas.xmlsoap.org/wsdl/soap12/}binding")
    assert found is not None
    assert found.get("transport") == TRANSPORT


def test_the_schema_of_the_parameters(qm: Any) -> None:
    service = wcf.Service(wcf.Endpoint(qm, ADDRESS))
    service.operation(ACTION, namespace=NAMESPACE, parameters={"order": Order, "note": str})(print)
    root = document(service.wsdl("Orders"))
    xs = "{http://www.w3.org/2001/XMLSchema}"
    contract = root.find(f".//{xs}complexType[@name='Order']/{xs}sequence")
    assert contract is not None
    members = {
        each.get("name"): (each.get("type", "").rpartition(":")[2], each.get("nillable")) for each in contract
    }
    assert members == {
        "color": ("Color", None),
        "id": ("long", None),
        "key": ("guid", None),
        "lines": ("ArrayOfstring", "true"),
        "next": ("Order", "true"),
        "span": ("duration", None),
        "when": ("dateTime", "true"),
    }
    wrapper = root.find(f".//{xs}element[@name='Submit']/{xs}complexType/{xs}sequence")
    assert wrapper is not None
    assert [each.get("name") for each in wrapper] == ["order", "note"]


@wcf.data_contract(namespace=NAMESPACE)
@dataclass
class Submit:
    """A contract with the name and the namespace of the wrapper."""

    counts: list[int | None]


@wcf.data_contract(namespace="urn:express")
@dataclass
class Express(Submit):
    hour: int = 0


def test_the_schema_of_derived_contracts_and_lists(qm: Any) -> None:
    service = wcf.Service(wcf.Endpoint(qm, ADDRESS))
    service.operation(ACTION, namespace=NAMESPACE, parameters={"order": Submit})(print)
    root = document(service.wsdl("Orders"))
    xs = "{http://www.w3.org/2001/XMLSchema}"

    def schema(namespace: str) -> Element:
        return next(each for each in root.iter(f"{xs}schema") if each.get("targetNamespace") == namespace)

    assert schema(NAMESPACE).find(f"{xs}element[@name='Submit']") is not None
    (member,) = schema(NAMESPACE).iterfind(f"{xs}complexType[@name='Submit']/{xs}sequence/{xs}element")
    assert member.get("type", "").endswith(":ArrayOfNullableOfint")
    (extension,) = schema("urn:express").iterfind(f"{xs}complexType[@name='Express']//{xs}extension")
    assert extension.get("base") == "tns:Submit"
    assert [each.get("name") for each in extension.iter(f"{xs}element")] == ["hour"]


def test_types_without_a_schema(qm: Any) -> None:
    service = wcf.Service(wcf.Endpoint(qm, ADDRESS))
    service.operation(ACTION, parameters={"x": complex})(print)
    with pytest.raises(InvalidParameterError, match="a type of a data contract"):
        service.wsdl("Orders")
