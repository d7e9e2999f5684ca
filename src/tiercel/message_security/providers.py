"""The three cryptographic providers of Windows that MSMQ uses: [MS-MQQB] 3.1.5.8.3, [MS-MQDMPR] 3.1.3."""

from typing import NamedTuple

from tiercel.model.codes import EncryptionAlgorithm, PrivacyLevel
from tiercel.wire.security_header import encode_provider_info

_A = EncryptionAlgorithm
RSA_FULL = 1
RSA_AES = 24


class Provider(NamedTuple):
    """A provider with the privacy level that selects it."""

    level: PrivacyLevel
    name: str
    type: int
    key_bits: int  # of its RSA keys on Windows
    algorithms: tuple[EncryptionAlgorithm, ...]  # the default comes first
    session_key_bytes: int  # of RC2 and RC4; those of AES follow from the algorithm

    @property
    def info(self) -> bytes:
        """SecurityData.ProviderInfo."""
        return encode_provider_info(self.type, self.name)

    @property
    def is_legacy(self) -> bool:
        """Whether its ciphers can be broken; they are used only where the configuration allows it."""
        return self.type != RSA_AES


BASE = Provider(
    PrivacyLevel.BASE, "Microsoft Base Cryptographic Provider v1.0", RSA_FULL, 512, (_A.RC4, _A.RC2), 5
)
ENHANCED = Provider(
    PrivacyLevel.ENHANCED,
    "Microsoft Enhanced Cryptographic Provider v1.0",
    RSA_FULL,
    1024,
    (_A.RC4, _A.RC2),
    16,
)
ADVANCED = Provider(
    PrivacyLevel.ADVANCED,
    "Microsoft Enhanced RSA and AES Cryptographic Provider",
    RSA_AES,
    1024,
    (_A.AES256, _A.AES128, _A.AES192),
    0,
)
PROVIDERS = (ADVANCED, ENHANCED, BASE)  # strongest first
_BY_LEVEL: dict[int, Provider] = {provider.level: provider for provider in PROVIDERS}
# Windows XP and [MS-MQMQ] note 19 have other names for the third.
_ALIASES = {"microsoft aes cryptographic provider": ADVANCED}
_PROTOTYPE = " (prototype)"


def provider_of_level(level: int) -> Provider | None:
    return _BY_LEVEL.get(level)


def provider_named(name: str) -> Provider | None:
    """The provider of a name in any of the spellings that documents and systems have."""
    plain = name.casefold().replace(",", "").strip().removesuffix(_PROTOTYPE)
    known = {provider.name.casefold(): provider for provider in PROVIDERS} | _ALIASES
    return known.get(plain)
