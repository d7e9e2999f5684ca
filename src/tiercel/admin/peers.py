"""Other queue managers as this one has learned of them: where each was last seen."""

from typing import Any
from uuid import UUID

from tiercel.engine.engine import Engine
from tiercel.model.errors import InvalidParameterError, MessageNotFoundError

Json = dict[str, Any]


def all_peers(engine: Engine) -> Json:
    return {
        "peers": [
            {"guid": str(guid), "address": address or None, "is_direct": is_direct}
            for guid, address, is_direct in engine.peers.all()
        ]
    }


def forget(engine: Engine, guid: str) -> Json:
    """Forget the address of a queue manager; its next transactional message tells it again."""
    try:
        peer = UUID(guid)
    except ValueError as error:
        problem = "not the GUID of a queue manager"
        raise InvalidParameterError(guid[:80], problem=problem, fix="take it from the list") from error
    if not engine.peers.forget(peer):
        problem = "no address was learned of it"
        raise MessageNotFoundError(f"queue manager {peer}", problem=problem, fix="check the list")
    return {"guid": str(peer)}
