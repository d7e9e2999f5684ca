"""Why a packet of another queue manager is not believed.

Anyone who reaches a port can send acknowledgements; one that was believed wrongly would delete messages that
nobody has. So each needs evidence: it names a message that was put on the wire, and comes from the queue
manager that the message was put on the wire for. A transactional message moves the stream of its sender, so
it has to come from its sender. What is not believed changes nothing.
"""

from enum import StrEnum


class Doubt(StrEnum):
    """The values are labels of a metric."""

    STALE = "stale"  # of messages that are complete: late or repeated, and harmless
    UNKNOWN_SEQUENCE = "unknown_sequence"
    UNKNOWN_MESSAGE = "unknown_message"
    NOT_SENT = "not_sent"
    OTHER_QUEUE_MANAGER = "other_queue_manager"
    OTHER_URL = "other_url"
    FOREIGN_SENDER = "foreign_sender"  # of a message
    EARLY_TIMESTAMP = "early_timestamp"  # of a message
    REFUSED_STRANGER = "refused_stranger"  # of a message
    OTHER_ADDRESS = "other_address"  # believed all the same: a computer may have several

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Doubt.STALE: "the messages are complete already",
    Doubt.UNKNOWN_SEQUENCE: "there is no such sequence",
    Doubt.UNKNOWN_MESSAGE: "there is no such message",
    Doubt.NOT_SENT: "the message has not been sent",
    Doubt.OTHER_QUEUE_MANAGER: "the messages were sent to another queue manager",
    Doubt.OTHER_URL: "it did not come to the URL that was given out for the stream",
    Doubt.FOREIGN_SENDER: "it has another sender; a router has to be in [routing] in_routing_servers",
    Doubt.EARLY_TIMESTAMP: "its sequence begins more than a day in the future; check the sender's clock",
    Doubt.REFUSED_STRANGER: "its queue refuses it, and too many refused senders are remembered already",
    Doubt.OTHER_ADDRESS: "the messages were sent to another address",
}
