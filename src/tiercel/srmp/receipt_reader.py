"""Stream receipts that arrive for our messages: [MC-MQSRM] 3.1.5.1.8, 3.1.5.1.9.

A receipt counts for what was sent on its stream, and only if it came to the URL that was given out for it.
"""

from collections.abc import Callable

from tiercel.engine.belief import Doubt
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.engine.stream import UNIDENTIFIED
from tiercel.srmp.context import Context
from tiercel.srmp.envelope import Envelope, StreamReceipt
from tiercel.srmp.kinds import Kind
from tiercel.srmp.receipt_tokens import ReceiptTokens
from tiercel.wire.order_ack import FinalAckBody
from tiercel.wire.structure import encode_tx_sequence_id

Confirmed = Callable[[QueueState, int], None]


class ReceiptReader:
    def __init__(self, context: Context, engine: Engine, tokens: ReceiptTokens, confirmed: Confirmed) -> None:
        self._context = context
        self._engine = engine
        self._tokens = tokens
        self._confirmed = confirmed

    def read(self, envelope: Envelope, kind: Kind, address: str) -> None:
        """A receipt that is not believed changes nothing (SRMP-142)."""
        receipt = envelope.stream_receipt
        assert receipt is not None
        doubt = self._doubt(receipt, envelope.path.to)
        if doubt is None:
            is_final = kind is Kind.FINAL_STREAM_RECEIPT
            doubt = self._settle(envelope, receipt) if is_final else self._confirm(receipt)
        if doubt is not None:
            self._context.doubts[doubt] += 1
            if doubt is not Doubt.STALE:
                self._context.tell("doubted", address, reason=f"{kind.value}: {doubt.meaning}")

    def _doubt(self, receipt: StreamReceipt, to: str) -> Doubt | None:
        if receipt.stream_id.sender != self._engine.queue_manager.identifier:
            return Doubt.UNKNOWN_SEQUENCE
        sequence = encode_tx_sequence_id(receipt.stream_id.sequence)
        is_believed = not self._context.settings.token_required or self._tokens.fits(to, sequence)
        return None if is_believed else Doubt.OTHER_URL

    def _confirm(self, receipt: StreamReceipt) -> Doubt | None:
        """Receiving a Stream Receipt: [MC-MQSRM] 3.1.5.1.8."""
        outgoing, sequence = self._engine.outgoing, encode_tx_sequence_id(receipt.stream_id.sequence)
        doubt = outgoing.doubt_order_ack(sequence, receipt.last_ordinal, UNIDENTIFIED)
        queue = outgoing.queue_of(sequence)
        if doubt is None and queue is not None:
            self._confirmed(queue, receipt.last_ordinal)
        return doubt

    def _settle(self, envelope: Envelope, receipt: StreamReceipt) -> Doubt | None:
        """Receiving a Final Stream Receipt: [MC-MQSRM] 3.1.5.1.9."""
        decision, msmq = envelope.commitment_receipt, envelope.msmq
        assert decision is not None
        assert msmq is not None
        body = FinalAckBody(
            receipt.stream_id.sequence,
            receipt.last_ordinal,
            0,
            decision.id.lineage,
            decision.id.uniquifier,
        )
        return self._engine.outgoing.final_acked(body, msmq.message_class, UNIDENTIFIED)
