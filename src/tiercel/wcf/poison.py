"""Messages that cannot be processed, as WCF 4 treats them.

A message is tried `receive_retry_count` + 1 times. Then it rests in the subqueue `;retry` for
`retry_cycle_delay_s` and is tried again as often; after `max_retry_cycles` of these cycles the last resort
applies. The counts stand in the message itself (AbortCounter and MoveCounter of [MS-MQRR] 2.2.5.3), so
restarts do not reset them.
"""

from dataclasses import dataclass
from enum import Enum

from tiercel.model.errors import InvalidParameterError, TiercelError
from tiercel.model.message import Message

RETRY = "retry"
POISON = "poison"


class ReceiveErrorHandling(Enum):
    """The end of a message that fails every time."""

    MOVE = "move"  # into the subqueue ;poison
    DROP = "drop"  # removed, with a line in the log
    REJECT = "reject"  # its sender gets a negative acknowledgement, and its dead-letter queue the message
    FAULT = "fault"  # the service stops, and the message stays where it is


class ServiceFaultedError(TiercelError):
    """A service has stopped at a message that it cannot process."""

    def __init__(self, lookup_id: int, reason: str) -> None:
        super().__init__(lookup_id, reason)
        self.lookup_id = lookup_id
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the service stopped at the message with the lookup id {self.lookup_id}: {self.reason}. "
            "Move or remove the message, or choose another receive_error_handling."
        )


@dataclass(frozen=True, slots=True)
class PoisonPolicy:
    """How often and when a message is tried again; the names and defaults are those of NetMsmqBinding.

    One default differs: .NET stops the service (`fault`), Tiercel moves the message aside and goes on.
    """

    receive_retry_count: int = 5
    max_retry_cycles: int = 2
    retry_cycle_delay_s: float = 1800
    receive_error_handling: ReceiveErrorHandling = ReceiveErrorHandling.MOVE

    def __post_init__(self) -> None:
        for name in "receive_retry_count", "max_retry_cycles", "retry_cycle_delay_s":
            if not getattr(self, name) >= 0:
                raise InvalidParameterError(
                    name, present=getattr(self, name), limit="0 or more", fix="pass a number"
                )

    def is_exhausted(self, message: Message, failures: int) -> bool:
        """Whether a message was tried often enough in its present cycle."""
        return failures >= (self.receive_retry_count + 1) * (self._cycle(message) + 1)

    def may_rest(self, message: Message) -> bool:
        """Whether it is to be tried again after a rest."""
        return self._cycle(message) < self.max_retry_cycles

    @staticmethod
    def _cycle(message: Message) -> int:
        return message.move_count // 2  # to the subqueue and back

    def due(self, message: Message) -> float:
        """When a message has rested long enough."""
        return message.last_move_time + self.retry_cycle_delay_s
