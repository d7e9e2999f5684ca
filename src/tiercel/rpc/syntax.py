"""Interfaces and transfer syntaxes: [C706] 12.6.3.1, [MS-RPCE] 2.2.2.7, 3.3.1.5.3."""

from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

from tiercel.model.identifiers import NULL_GUID
from tiercel.wire.structure import Layout, Structure

# The start of a feature negotiation "transfer syntax"; the feature bits follow it.
_FEATURE_PREFIX: Final = UUID("6cb71c2c-9812-4540-0000-000000000000").bytes_le[:8]


@dataclass(frozen=True, slots=True)
class SyntaxId(Structure):
    """RPC_SYNTAX_IDENTIFIER: a UUID and a version, the minor number in the upper half."""

    uuid: UUID = NULL_GUID
    version: int = 0

    LAYOUT = Layout("GUID I")

    @property
    def major(self) -> int:
        return self.version & 0xFFFF

    @property
    def minor(self) -> int:
        return self.version >> 16

    @property
    def features(self) -> int | None:
        """The bits of BindTimeFeatureNegotiationBitmask, if this is one: [MS-RPCE] 2.2.2.14."""
        data = self.uuid.bytes_le
        return data[8] if data[:8] == _FEATURE_PREFIX and self.version == 1 else None

    @classmethod
    def of_features(cls, features: int) -> Self:
        return cls(UUID(bytes_le=_FEATURE_PREFIX + bytes([features]) + bytes(7)), 1)

    def __str__(self) -> str:
        return f"{self.uuid} version {self.major}.{self.minor}"


NO_SYNTAX: Final = SyntaxId()
NDR: Final = SyntaxId(UUID("8a885d04-1ceb-11c9-9fe8-08002b104860"), 2)
NDR64: Final = SyntaxId(UUID("71710533-beba-4937-8319-b5dbef9ccc36"), 1)

# Features of bind time negotiation, [MS-RPCE] 2.2.2.14
SECURITY_CONTEXT_MULTIPLEXING: Final = 0x01
KEEP_CONNECTION_ON_ORPHAN: Final = 0x02


@dataclass(frozen=True, slots=True)
class Interface:
    """A set of operations, numbered from 0 to `operations` - 1."""

    name: str
    syntax: SyntaxId
    operations: int

    def accepts(self, wanted: SyntaxId) -> bool:
        """Whether clients of `wanted` can be served: same major version, and not a newer minor one."""
        own = self.syntax
        return own.uuid == wanted.uuid and own.major == wanted.major and own.minor >= wanted.minor
