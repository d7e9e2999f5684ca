import pytest

from tiercel.message_security.providers import ADVANCED, BASE, ENHANCED, Provider, provider_named

AES = "Microsoft Enhanced RSA and AES Cryptographic Provider"


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("Microsoft Base Cryptographic Provider v1.0", BASE),
        ("Microsoft Base Cryptographic Provider, v1.0", BASE),
        ("Microsoft Enhanced Cryptographic Provider v1.0", ENHANCED),
        (AES, ADVANCED),
        (f"{AES} (Prototype)", ADVANCED),
        ("Microsoft AES Cryptographic Provider", ADVANCED),
        ("Microsoft Strong Cryptographic Provider", None),
        ("", None),
    ],
)
def test_the_spellings_of_a_provider(name: str, provider: Provider | None) -> None:
    assert provider_named(name) is provider
