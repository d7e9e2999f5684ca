"""The policy assertions of the binding: [MS-NMFMB] 2.2.3."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from tiercel.nbfx.elements import split_tag

MSMQ: Final = "http://schemas.microsoft.com/ws/06/2004/mspolicy/msmq"
POLICY: Final = "http://schemas.xmlsoap.org/ws/2004/09/policy"
UTILITY: Final = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd"
BINARY_ENCODING: Final = "{http://schemas.microsoft.com/ws/06/2004/mspolicy/netbinary1}BinaryEncoding"
MTOM_ENCODING: Final = (
    "{http://schemas.xmlsoap.org/ws/2004/09/policy/optimizedmimeserialization}OptimizedMimeSerialization"
)
USING_ADDRESSING_10: Final = "{http://www.w3.org/2006/05/addressing/wsdl}UsingAddressing"
USING_ADDRESSING_2004: Final = "{http://schemas.xmlsoap.org/ws/2004/08/addressing/policy}UsingAddressing"

# The spelling of the schema and that of the sample, which WCF writes (NMFMB trap 10).
_NAMES: Final = {
    "MsmqBestEffort": "best_effort",
    "BestEffort": "best_effort",
    "MsmqSession": "session",
    "Session": "session",
    "MsmqVolatile": "volatile",
    "Volatile": "volatile",
    "Authenticated": "authenticated",
    "WindowsDomain": "windows_domain",
}
_WRITTEN: Final = ("MsmqVolatile", "MsmqBestEffort", "MsmqSession", "Authenticated", "WindowsDomain")


@dataclass(frozen=True, slots=True)
class Assertions:
    """The policy assertions of an endpoint."""

    best_effort: bool = False
    session: bool = False
    volatile: bool = False
    authenticated: bool = False
    windows_domain: bool = False  # means something only together with authenticated

    @classmethod
    def of(cls, tags: set[str]) -> "Assertions":
        found = {_NAMES[name] for space, name in map(split_tag, tags) if space == MSMQ and name in _NAMES}
        return cls(**dict.fromkeys(found, True))

    @property
    def tags(self) -> list[str]:
        """The assertions that are set, as WCF spells them."""
        return [f"{{{MSMQ}}}{name}" for name in _WRITTEN if getattr(self, _NAMES[name])]


def tags_of(policy: Element) -> set[str]:
    """The assertions of a policy; of several alternatives, those of the first."""
    return set(_assertions(policy))


def _assertions(element: Element) -> Iterator[str]:
    space, name = split_tag(element.tag)
    if space != POLICY:
        yield element.tag
        return
    children = list(element)
    for child in children[:1] if name == "ExactlyOne" else children:
        yield from _assertions(child)
