"""The versions of SOAP and of WS-Addressing, and their names."""

from enum import Enum
from typing import Final

from tiercel.nbfx import DictionaryString

_12: Final = DictionaryString("http://www.w3.org/2003/05/soap-envelope")
_11: Final = DictionaryString("http://schemas.xmlsoap.org/soap/envelope/")
_ADDRESSING_10: Final = DictionaryString("http://www.w3.org/2005/08/addressing")
_ADDRESSING_2004: Final = DictionaryString("http://schemas.xmlsoap.org/ws/2004/08/addressing")


class Soap(Enum):
    """A version of SOAP; its value is the one that users write."""

    V11 = "1.1"
    V12 = "1.2"

    @property
    def namespace(self) -> DictionaryString:
        return _11 if self is Soap.V11 else _12


class Addressing(Enum):
    """A version of WS-Addressing; NONE leaves the headers out."""

    V10 = "1.0"
    AUGUST_2004 = "2004/08"
    NONE = "none"

    @property
    def namespace(self) -> DictionaryString:
        return {
            Addressing.V10: _ADDRESSING_10,
            Addressing.AUGUST_2004: _ADDRESSING_2004,
            Addressing.NONE: DictionaryString("http://schemas.microsoft.com/ws/2005/05/addressing/none"),
        }[self]

    @property
    def anonymous(self) -> str:
        if self is Addressing.AUGUST_2004:
            return f"{self.namespace}/role/anonymous"
        return f"{self.namespace}/anonymous"


SOAP_BY_NAMESPACE: Final = {version.namespace: version for version in Soap}
ADDRESSING_NAMESPACES: Final = tuple(version.namespace for version in Addressing)
