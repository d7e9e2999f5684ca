"""How fast packets of 1 KiB are verified and signed, beside bare `cryptography` with the same 2048-bit key.

The rates are calls a second of CPU time of one core.
"""

from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA512
from measure import rates

from tiercel.message_security.signer import Signer
from tiercel.message_security.trust import Trust, TrustedCertificate
from tiercel.message_security.verifier import Verifier
from tiercel.model.codes import AuthenticationLevel, HashAlgorithm, SenderIdType
from tiercel.model.format_name import DirectFormatName
from tiercel.model.message import Message
from tiercel.model.sid import ADMINISTRATORS
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

ROUNDS, CALLS = 9, 200
BODY = bytes(1024)


def main() -> None:
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
    found = rates(
        {
            "decode a signed packet": lambda: UserMessage(data),
            "decode and verify it": lambda: verifier.verify(UserMessage(data), 0.0),
            "bare verification": lambda: public.verify(bare, BODY, PKCS1v15(), SHA512()),
            "sign a packet": lambda: signer.sign(message, unsigned, AuthenticationLevel.SIG20),
            "bare signature": lambda: signer.key.sign(BODY, PKCS1v15(), SHA512()),
        },
        ROUNDS,
        CALLS,
    )
    print("signatures of 2048 bits, SHA-512, 1 KiB of body: calls/s of CPU time")
    for name, rate in found.items():
        print(f"{name:<24}{rate:>10,.0f}")


if __name__ == "__main__":
    main()
