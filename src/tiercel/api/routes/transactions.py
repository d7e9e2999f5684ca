"""Open transactions; those in doubt can be committed or aborted."""

from collections import Counter
from typing import Annotated, Any
from uuid import UUID

from fastapi import Path, Response

from tiercel.admin.message_json import time_text
from tiercel.api.context import Api, Context, answer
from tiercel.api.models import Decided, TransactionList
from tiercel.api.routing import needs, new_router
from tiercel.engine.engine import Engine
from tiercel.engine.transaction import Transaction, TransactionState
from tiercel.model.codes import TransactionalOperationType
from tiercel.model.errors import TransactionSequenceError
from tiercel.security.tokens import Role

router = new_router()

TransactionId = Annotated[UUID, Path(description="a GUID")]


@router.get("/transactions", **needs(Role.READ), response_model=TransactionList)
async def list_transactions(api: Context) -> Response:
    found = await api.runner.call(lambda engine: [_row(each) for each in engine.transactions.living()])
    return answer({"transactions": found})


def _row(transaction: Transaction) -> dict[str, Any]:
    kinds = Counter(each.kind for each in transaction.operations)
    return {
        "id": str(transaction.id),
        "state": transaction.state.value,
        "is_in_doubt": transaction.state is TransactionState.PREPARED,
        "began": time_text(transaction.began),
        "sends": kinds[TransactionalOperationType.ENQUEUE],
        "receives": kinds[TransactionalOperationType.DEQUEUE],
        "moves": kinds[TransactionalOperationType.MOVE],
        "queues": sorted({str(each.queue.queue.pathname or each.queue) for each in transaction.operations}),
    }


@router.post(
    "/transactions/{transaction}/commit",
    **needs(Role.ADMIN, audit="commit transaction"),
    response_model=Decided,
)
async def commit_transaction(api: Context, transaction: TransactionId) -> Response:
    """Commits a transaction in doubt, in place of its coordinator."""
    return await _decide(api, transaction, commits=True)


@router.post(
    "/transactions/{transaction}/abort",
    **needs(Role.ADMIN, audit="abort transaction"),
    response_model=Decided,
)
async def abort_transaction(api: Context, transaction: TransactionId) -> Response:
    return await _decide(api, transaction, commits=False)


async def _decide(api: Api, identifier: UUID, *, commits: bool) -> Response:
    def command(engine: Engine) -> None:
        if engine.transactions.find(identifier).state is not TransactionState.PREPARED:
            problem = "it is not in doubt"
            raise TransactionSequenceError(
                f"transaction {identifier}", problem=problem, fix="let its owner end it"
            )
        end = engine.resource_manager.commit if commits else engine.resource_manager.abort
        end(identifier)

    await api.runner.call(command)
    return answer({"id": str(identifier), "outcome": "committed" if commits else "aborted"})
