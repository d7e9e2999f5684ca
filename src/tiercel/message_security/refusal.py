"""Why the security data of a message makes its queue manager refuse it."""

from tiercel.model.codes import MessageClass
from tiercel.model.errors import TiercelError


class MessageRefusedError(TiercelError):
    """The message must not be delivered; `reason` is the class that its sender gets ([MS-MQQB] 3.1.5.8.3)."""

    def __init__(self, reason: MessageClass, why: str) -> None:
        super().__init__(f"{reason.meaning}: {why}")
        self.reason = reason
        self.why = why


def bad_signature(why: str) -> MessageRefusedError:
    return MessageRefusedError(MessageClass.NACK_BAD_SIGNATURE, why)


def bad_encryption(why: str) -> MessageRefusedError:
    return MessageRefusedError(MessageClass.NACK_BAD_ENCRYPTION, why)


def unsupported_provider(why: str) -> MessageRefusedError:
    """No step of the text sends this class, but it exists for this case."""
    return MessageRefusedError(MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER, why)
