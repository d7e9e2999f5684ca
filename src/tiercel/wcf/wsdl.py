"""WSDL 1.1 with the policy of the binding: [MS-NMFMB] 2.1, 2.2 and 6.1.

`read_wsdl` finds the endpoints of NetMsmqBinding in a document, `write_wsdl` describes a service so that
svcutil and Visual Studio make a client of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from xml.etree.ElementTree import Element, QName, SubElement

from tiercel.framing.records import Encoding
from tiercel.nbfx import Document, declaration, from_elements, from_text, to_elements, to_text
from tiercel.nbfx.elements import split_tag
from tiercel.wcf.policy import (
    BINARY_ENCODING,
    MTOM_ENCODING,
    POLICY,
    USING_ADDRESSING_10,
    USING_ADDRESSING_2004,
    UTILITY,
    Assertions,
    tags_of,
)
from tiercel.wcf.schema import Schemas
from tiercel.wcf.soap import Addressing, Soap

WSDL: Final = "http://schemas.xmlsoap.org/wsdl/"
WSDL_SOAP: Final = {
    "http://schemas.xmlsoap.org/wsdl/soap12/": Soap.V12,
    "http://schemas.xmlsoap.org/wsdl/soap/": Soap.V11,  # NMFMB trap 20
}
_SOAP_OF: Final = {soap: namespace for namespace, soap in WSDL_SOAP.items()}
TRANSPORT: Final = "http://schemas.microsoft.com/soap/msmq"
_WSAW_ACTION: Final = "{http://www.w3.org/2006/05/addressing/wsdl}Action"
_WSA10: Final = "http://www.w3.org/2005/08/addressing"
_NAMES: Final = {
    "http://schemas.xmlsoap.org/wsdl/": "wsdl",
    "http://schemas.xmlsoap.org/wsdl/soap/": "soap",
    "http://schemas.xmlsoap.org/wsdl/soap12/": "soap12",
    "http://schemas.microsoft.com/ws/06/2004/mspolicy/msmq": "msmq",
    "http://schemas.microsoft.com/ws/06/2004/mspolicy/netbinary1": "msb",
    "http://www.w3.org/2006/05/addressing/wsdl": "wsaw",
    "http://www.w3.org/2001/XMLSchema": "xs",
    _WSA10: "wsa10",
    POLICY: "wsp",
    UTILITY: "wsu",
}


@dataclass(frozen=True, slots=True)
class Port:
    """An endpoint that a WSDL describes."""

    name: str
    address: str
    soap: Soap
    addressing: Addressing
    encoding: str
    assertions: Assertions
    actions: Mapping[str, str]  # by the names of the operations

    def settings(self) -> dict[str, Any]:
        """The arguments of `Endpoint` for this port."""
        assertions = self.assertions
        return {
            "address": self.address,
            "soap": self.soap.value,
            "addressing": self.addressing.value,
            "encoding": self.encoding,
            "exactly_once": not assertions.best_effort,
            "session": assertions.session,
            "durable": not assertions.volatile,
            "authenticated": assertions.authenticated,
            "windows_domain": assertions.authenticated and assertions.windows_domain,  # NMFMB-018
        }


def read_wsdl(text: str | bytes) -> list[Port]:
    """The ports of a document whose transport is MSMQ; DecodeError when it is not well-formed."""
    document = to_elements(from_text(text))
    return list(_Reader(document).ports())


class _Reader:
    def __init__(self, document: Document) -> None:
        self._root = document.root
        self._policies = {
            f"#{policy.get(f'{{{UTILITY}}}Id')}": policy for policy in self._root.iter(f"{{{POLICY}}}Policy")
        }

    def ports(self) -> Iterator[Port]:
        bindings = {each.get("name", ""): each for each in self._root.iterfind(f"{{{WSDL}}}binding")}
        for port in self._root.iterfind(f"{{{WSDL}}}service/{{{WSDL}}}port"):
            binding = bindings.get(port.get("binding", "").rpartition(":")[2])
            soap = None if binding is None else _soap_of(binding)
            address = _address(port)
            if binding is not None and soap is not None and address:
                yield self._port(port.get("name", ""), address, binding, soap)

    def _port(self, name: str, address: str, binding: Element, soap: Soap) -> Port:
        tags: set[str] = set()
        for policy in self._attached(binding):
            tags |= tags_of(policy)
        addressing = Addressing.V10
        if USING_ADDRESSING_2004 in tags and USING_ADDRESSING_10 not in tags:
            addressing = Addressing.AUGUST_2004
        encoding = "mtom" if MTOM_ENCODING in tags else "text" if soap is Soap.V11 else "binary"
        return Port(name, address, soap, addressing, encoding, Assertions.of(tags), _actions(binding, soap))

    def _attached(self, binding: Element) -> Iterator[Element]:
        yield from binding.iterfind(f"{{{POLICY}}}Policy")
        for reference in binding.iterfind(f"{{{POLICY}}}PolicyReference"):
            policy = self._policies.get(reference.get("URI", ""))
            if policy is not None:
                yield policy


def _soap_of(binding: Element) -> Soap | None:
    for child in binding:
        namespace, name = split_tag(child.tag)
        if name == "binding" and namespace in WSDL_SOAP and child.get("transport") == TRANSPORT:
            return WSDL_SOAP[namespace]
    return None


def _address(port: Element) -> str:
    for child in port:
        namespace, name = split_tag(child.tag)
        if name == "address" and namespace in WSDL_SOAP:
            return child.get("location", "")
    return ""


def _actions(binding: Element, soap: Soap) -> dict[str, str]:
    found = {}
    for operation in binding.iterfind(f"{{{WSDL}}}operation"):
        settings = operation.find(f"{{{_SOAP_OF[soap]}}}operation")
        found[operation.get("name", "")] = "" if settings is None else settings.get("soapAction", "")
    return found


@dataclass(frozen=True, slots=True)
class OperationDescription:
    """An operation as a WSDL has it."""

    action: str
    namespace: str
    parameters: Mapping[str, Any] | None = None  # the types by name; None: anything

    @property
    def name(self) -> str:
        return self.action.rstrip("/").rpartition("/")[2]


def write_wsdl(name: str, endpoint: Any, operations: list[OperationDescription]) -> str:
    """The description of a service; `endpoint` is one of `tiercel.wcf`."""
    namespace = operations[0].namespace if operations else "http://tempuri.org/"
    return _Writer(name, namespace, endpoint).write(operations)


class _Writer:
    def __init__(self, name: str, namespace: str, endpoint: Any) -> None:
        self._name = name
        self._namespace = namespace
        self._endpoint = endpoint
        self._soap = _SOAP_OF[endpoint.soap]
        self._binding = f"NetMsmqBinding_I{name}"
        self._root = Element(f"{{{WSDL}}}definitions", name=name, targetNamespace=namespace)

    def write(self, operations: list[OperationDescription]) -> str:
        self._policy()
        self._types(operations)
        for operation in operations:
            message = SubElement(self._root, f"{{{WSDL}}}message", name=self._message(operation))
            part = SubElement(message, f"{{{WSDL}}}part", name="parameters")
            part.set("element", QName(operation.namespace, operation.name))  # type: ignore[arg-type]
        self._port_type(operations)
        self._write_binding(operations)
        self._service()
        scope = {
            "": "",
            **{prefix: namespace for namespace, prefix in _NAMES.items()},
            "tns": self._namespace,
        }
        return '<?xml version="1.0" encoding="utf-8"?>' + to_text(_declared(self._root, scope))

    def _message(self, operation: OperationDescription) -> str:
        return f"I{self._name}_{operation.name}_InputMessage"

    def _policy(self) -> None:
        policy = SubElement(
            self._root, f"{{{POLICY}}}Policy", {f"{{{UTILITY}}}Id": f"{self._binding}_policy"}
        )
        everything = SubElement(SubElement(policy, f"{{{POLICY}}}ExactlyOne"), f"{{{POLICY}}}All")
        binding = self._endpoint.binding
        assertions = Assertions(
            best_effort=not binding.exactly_once,
            session=binding.session,
            volatile=binding.volatile,
            authenticated=binding.authenticated,
            windows_domain=binding.authenticated and binding.windows_domain,
        )
        tags = assertions.tags
        if binding.encoding is Encoding.BINARY:
            tags.append(BINARY_ENCODING)
        elif binding.encoding is Encoding.MTOM:
            tags.append(MTOM_ENCODING)
        if self._endpoint.addressing is Addressing.V10:
            tags.append(USING_ADDRESSING_10)
        elif self._endpoint.addressing is Addressing.AUGUST_2004:
            tags.append(USING_ADDRESSING_2004)
        for tag in tags:
            SubElement(everything, tag)

    def _types(self, operations: list[OperationDescription]) -> None:
        schemas = Schemas()
        for operation in operations:
            schemas.wrapper(operation.name, operation.namespace, operation.parameters)
        types = SubElement(self._root, f"{{{WSDL}}}types")
        types.extend(schemas.by_namespace.values())

    def _port_type(self, operations: list[OperationDescription]) -> None:
        port_type = SubElement(self._root, f"{{{WSDL}}}portType", name=f"I{self._name}")
        for operation in operations:
            element = SubElement(port_type, f"{{{WSDL}}}operation", name=operation.name)
            given = SubElement(element, f"{{{WSDL}}}input", {_WSAW_ACTION: operation.action})
            given.set("message", self._own(self._message(operation)))

    def _own(self, name: str) -> Any:
        return QName(self._namespace, name)

    def _write_binding(self, operations: list[OperationDescription]) -> None:
        binding = SubElement(self._root, f"{{{WSDL}}}binding", name=self._binding)
        binding.set("type", self._own(f"I{self._name}"))
        SubElement(binding, f"{{{POLICY}}}PolicyReference", URI=f"#{self._binding}_policy")
        SubElement(binding, f"{{{self._soap}}}binding", transport=TRANSPORT)
        for operation in operations:
            element = SubElement(binding, f"{{{WSDL}}}operation", name=operation.name)
            settings = {"soapAction": operation.action, "style": "document"}
            SubElement(element, f"{{{self._soap}}}operation", settings)
            given = SubElement(element, f"{{{WSDL}}}input")
            SubElement(given, f"{{{self._soap}}}body", use="literal")

    def _service(self) -> None:
        service = SubElement(self._root, f"{{{WSDL}}}service", name=self._name)
        port = SubElement(service, f"{{{WSDL}}}port", name=self._binding)
        port.set("binding", self._own(self._binding))
        address = str(self._endpoint.address)
        SubElement(port, f"{{{self._soap}}}address", location=address)
        reference = SubElement(port, f"{{{_WSA10}}}EndpointReference")
        SubElement(reference, f"{{{_WSA10}}}Address").text = address


def _declared(root: Element, scope: dict[str, str]) -> Any:
    """The events of the document, with the usual prefixes declared at its root."""
    first, *rest = from_elements(root, scope=scope)
    assert first[0] == "start"
    declared = tuple(declaration(prefix, namespace) for prefix, namespace in scope.items() if prefix)
    return [(*first[:4], (*declared, *first[4])), *rest]
