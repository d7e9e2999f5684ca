"""The queue manager under an outside coordinator: [MS-MQDMPR] 3.1.4.6 to 3.1.4.11.

The coordinator's requests are calls, the answers are effects: they leave after the commit of their batch, so
that only durable results are promised (DMPR T-25). A request may come twice, for instance when its
answer was lost; the second time changes nothing and is answered like the first.

    request    transaction     then                                  answer
    prepare    can be          it is prepared                        PREPARED
    prepare    in one phase    it is prepared and committed at once  COMMITTED
    prepare    cannot be       it is aborted                         ABORTED
    commit     any, or gone    it has committed                      COMMITTED
    abort      any, or gone    it has aborted                        ABORTED
"""

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from uuid import UUID

from tiercel.engine.core import Answered, Core
from tiercel.engine.transactions import Transactions
from tiercel.model.codes import CoordinatorAnswer
from tiercel.model.errors import DtcConnectError, MqError, TransactionSequenceError


class Outcome(Enum):
    """A coordinator's answer about a transaction that was prepared before a restart."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    SILENCE = "silence"  # it did not answer in time


class ResourceManager:
    def __init__(self, core: Core, transactions: Transactions) -> None:
        self._core = core
        self._transactions = transactions

    def prepare(self, identifier: UUID, *, single_phase: bool = False) -> None:
        """DTC Transaction Prepare ([MS-MQDMPR] 3.1.4.6)."""
        try:
            self._transactions.prepare(identifier)
        except MqError:
            self.abort(identifier)
            return
        if single_phase:
            self.commit(identifier)
        else:
            self._answer(identifier, CoordinatorAnswer.PREPARED)

    def commit(self, identifier: UUID) -> None:
        """DTC Transaction Commit ([MS-MQDMPR] 3.1.4.7)."""
        with suppress(TransactionSequenceError):  # it has ended already
            self._transactions.commit(identifier)
        self._answer(identifier, CoordinatorAnswer.COMMITTED)

    def abort(self, identifier: UUID) -> None:
        """DTC Transaction Abort ([MS-MQDMPR] 3.1.4.8)."""
        with suppress(TransactionSequenceError):
            self._transactions.abort(identifier)
        self._answer(identifier, CoordinatorAnswer.ABORTED)

    def reenlist(self, outcome_of: Callable[[UUID], Outcome]) -> None:
        """DTC Reenlistment Commit, Abort and Timeout ([MS-MQDMPR] 3.1.4.9 to 3.1.4.11).

        Ends every transaction that a restart left in doubt; raises when the coordinator does not answer.
        """
        for transaction in list(self._transactions.in_doubt()):
            outcome = outcome_of(transaction.id)
            if outcome is Outcome.SILENCE:
                problem = "its coordinator did not say in time how it ended"
                raise DtcConnectError(f"transaction {transaction.id}", problem=problem)
            if outcome is Outcome.COMMITTED:
                self._transactions.commit(transaction.id)
            else:
                self._transactions.abort(transaction.id)

    def _answer(self, identifier: UUID, answer: CoordinatorAnswer) -> None:
        self._core.effects.append(Answered(identifier, answer))
