"""The certificate of a peer on a TLS connection, as far as the protocol needs it."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Certificate:
    """It was verified: an authority that we trust has issued it, and the peer has its private key."""

    fingerprint: str  # SHA-256, as OpenSSL prints it
    guids: frozenset[UUID] = frozenset()  # of its names of the form urn:uuid:GUID
