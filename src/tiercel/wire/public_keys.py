"""The public keys that a queue manager publishes: [MS-MQMQ] 2.2.1 and 2.2.2."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tiercel.wire.structure import Layout, Part, Reader, Structure, encode_text_nul

MAX_KEYS = 64  # a queue manager has one for each provider, and old ones


@dataclass(frozen=True, slots=True)
class MQDSPublicKey(Structure):
    """MQDSPUBLICKEY, [MS-MQMQ] 2.2.1: a PUBLICKEYBLOB with the provider that made it."""

    key_length: int = 0
    provider_length: int = 2  # in bytes, with the NUL
    provider_type: int = 0
    provider_name: str = ""
    key: bytes = b""

    LAYOUT = Layout("I I I")

    @classmethod
    def of(cls, provider_type: int, provider_name: str, key: bytes) -> Self:
        return cls(len(key), len(encode_text_nul(provider_name)), provider_type, provider_name, key)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        fixed = reader.fixed(cls)
        name = reader.text(fixed[1], "provider_name")
        return cls.make(fixed, name, reader.take(fixed[0], "key"))

    def variable(self) -> Iterator[Part]:
        yield Part("provider_name", encode_text_nul(self.provider_name), self.provider_name)
        yield Part("key", self.key, self.key)


@dataclass(frozen=True, slots=True)
class MQDSPublicKeys(Structure):
    """MQDSPUBLICKEYS, [MS-MQMQ] 2.2.2. The keys follow each other without padding."""

    length: int = 8
    count: int = 0
    keys: tuple[MQDSPublicKey, ...] = ()

    LAYOUT = Layout("I I")

    @classmethod
    def of(cls, keys: tuple[MQDSPublicKey, ...]) -> Self:
        return cls(cls.LAYOUT.size + sum(len(key.encode()) for key in keys), len(keys), keys)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        start = reader.at
        fixed = reader.fixed(cls)
        length, count = fixed
        if count > MAX_KEYS:
            raise reader.error("count", f"is {count}, at most {MAX_KEYS} are allowed", start + 4)
        keys = tuple(MQDSPublicKey.read(reader) for _ in range(count))
        if reader.at - start != length:
            reader.structure = cls.__name__
            raise reader.error("length", f"is {length}, the keys end after {reader.at - start} bytes", start)
        return cls.make(fixed, keys)

    def variable(self) -> Iterator[Part]:
        for i, key in enumerate(self.keys):
            yield from (part._replace(name=f"keys[{i}].{part.name}") for part in key.parts())
