"""How fast packets of 1 KiB are verified, signed, encrypted and decrypted, beside bare `cryptography`.

The rates are calls a second of CPU time of one core. RSA has 2048 bits. Encryption uses a session key that is
in the cache, as all messages but the first in ten minutes do; the first takes an RSA operation.
"""

from datetime import UTC, datetime
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.hashes import SHA512
from measure import Operation, rates

from tiercel.message_security.encryption import Encryption
from tiercel.message_security.exchange_keys import KeyRing
from tiercel.message_security.signer import Signer
from tiercel.message_security.trust import Trust, TrustedCertificate, TrustedQueueManager
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import AuthenticationLevel, HashAlgorithm, PrivacyLevel, SenderIdType
from tiercel.model.format_name import DirectFormatName, PrivateFormatName
from tiercel.model.message import Message
from tiercel.model.sid import ADMINISTRATORS
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

ROUNDS, CALLS = 9, 200
BODY = bytes(1024)
RECEIVER = UUID(int=1)


def main() -> None:
    show("signatures of 2048 bits, SHA-512, 1 KiB of body: calls/s of CPU time", signatures())
    show("AES-256 with a cached session key, 1 KiB of body: calls/s of CPU time", encryption())


def show(title: str, operations: dict[str, Operation]) -> None:
    print(title)
    for name, rate in rates(operations, ROUNDS, CALLS).items():
        print(f"{name:<28}{rate:>10,.0f}")


def signatures() -> dict[str, Operation]:
    signer = Signer.new("bench", datetime.now(UTC))
    message = Message(
        BODY,
        destination_queue=DirectFormatName.from_wire(r"OS:host\private$\orders"),
        hash_algorithm=HashAlgorithm.SHA_512,
        sender_certificate=signer.certificate.der,
        sender_id_type=SenderIdType.NONE,
    )
    unsigned = UserMessage(encode_message(message))
    signer.sign(message, unsigned, AuthenticationLevel.SIG20)
    data = encode_message(message)
    trust = Trust((TrustedCertificate("bench", ADMINISTRATORS, signer.certificate),))
    verifier = Verifier(lambda: trust)
    assert verifier.verify(UserMessage(data), 0.0).is_authenticated
    bare = signer.key.sign(BODY, PKCS1v15(), SHA512())
    public = signer.certificate.key
    return {
        "decode a signed packet": lambda: UserMessage(data),
        "decode and verify it": lambda: verifier.verify(UserMessage(data), 0.0),
        "bare verification": lambda: public.verify(bare, BODY, PKCS1v15(), SHA512()),
        "sign a packet": lambda: signer.sign(message, unsigned, AuthenticationLevel.SIG20),
        "bare signature": lambda: signer.key.sign(BODY, PKCS1v15(), SHA512()),
    }


def encryption() -> dict[str, Operation]:
    keys = KeyRing().with_missing(datetime.now(UTC), legacy=False)
    name = PrivateFormatName(RECEIVER, 7)
    trust = Trust((TrustedQueueManager("bench", RECEIVER, (), keys.published().keys),))
    here = Encryption(keys=keys, trust=lambda: trust)
    message = Message(BODY, destination_queue=name, privacy_level=PrivacyLevel.ADVANCED)
    clear = UserMessage(encode_message(message))
    sealed = here.seal(clear, name, 0.0)
    assert here.opener.open(sealed, 0.0).body == BODY

    def bare() -> None:
        encryptor = Cipher(AES(bytes(32)), CBC(bytes(16))).encryptor()
        decryptor = Cipher(AES(bytes(32)), CBC(bytes(16))).decryptor()
        decryptor.update(encryptor.update(BODY) + encryptor.finalize())

    return {
        "encrypt a packet": lambda: here.seal(clear, name, 0.0),
        "decode and decrypt it": lambda: here.opener.open(UserMessage(sealed.data), 0.0),
        "both": lambda: here.opener.open(UserMessage(here.seal(clear, name, 0.0).data), 0.0),
        "bare AES in both directions": bare,
        "open a session key (RSA)": lambda: here.opener.unwrap(sealed),
    }


if __name__ == "__main__":
    main()
