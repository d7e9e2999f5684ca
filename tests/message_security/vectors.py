"""The vectors of tests/vectors/capi and tests/vectors/security; their source is in the README there."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tiercel.message_security.rsa_keys import private_key_of
from tiercel.wire.key_blobs import PrivateKeyBlob
from tiercel.wire.user_message import UserMessage

FOLDER = Path(__file__).resolve().parent.parent / "vectors"


def names(pattern: str) -> list[str]:
    return [f"{path.parent.name}/{path.stem}" for path in sorted(FOLDER.glob(f"{pattern}.json"))]


@cache
def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def octets(name: str, field: str) -> bytes:
    return bytes.fromhex(load(name)[field])


def packet(name: str) -> UserMessage:
    return UserMessage(octets(name, "packet"))


@cache
def private_key(name: str, field: str = "private_key_blob") -> RSAPrivateKey:
    return private_key_of(PrivateKeyBlob.decode(octets(name, field)))


@cache
def private_key_of_hex(blob: str) -> RSAPrivateKey:
    return private_key_of(PrivateKeyBlob.decode(bytes.fromhex(blob)))
