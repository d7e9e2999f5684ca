"""The messages of a soak: each is known by its number, which also says what is in it."""

from tiercel.model.message import Message

COUNTER = r".\private$\counter"  # the number of the next message, in the same transaction as the messages
ORDERS = r".\private$\orders"

_SIZES = (0, 40, 200, 200, 1000, 1000, 3000)
_LARGE = 20_000


def letter(number: int) -> Message:
    """Sizes of all kinds; now and then one that takes several pages of the store."""
    size = _LARGE if number % 500 == 499 else _SIZES[number * 2654435761 % 2**32 % len(_SIZES)]
    return Message(b"%d:" % number + bytes([number & 0xFF]) * size, label=str(number))


def number_of(body: bytes) -> int:
    """The number of a message that is whole; anything else is a mistake."""
    number = int(body.partition(b":")[0])
    if body != letter(number).body:
        raise AssertionError(f"message {number} came changed: {len(body)} bytes, {body[:40]!r}...")
    return number
