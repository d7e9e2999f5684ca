"""Where a message is and why, and whether one would reach its queue."""

from typing import Annotated, Any

from fastapi import Query, Response

from tiercel.admin.explain import explain
from tiercel.api import peer_apis, reachability
from tiercel.api.context import Api, Context, answer
from tiercel.api.models import Explanation, WhyAnswer
from tiercel.api.routing import needs, new_router
from tiercel.engine.preflight import Planned
from tiercel.model.errors import InvalidParameterError
from tiercel.model.identifiers import MessageId
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.security.tokens import Role

router = new_router()


@router.get("/why", **needs(Role.READ), response_model=WhyAnswer)
async def why(
    api: Context,
    id_: Annotated[str, Query(alias="id", max_length=60, description=r"the message id, as `{guid}\number`")],
    hops: Annotated[
        bool, Query(description="ask the queue managers of [[peers]] that have a url, too")
    ] = False,
) -> Response:
    """Everything that is known about a message: where it is, what happened to it, and what to do.

    It is found in queues, claims, journals, dead-letter queues, the ledger of discards, and by the
    acknowledgements that name it.
    """
    try:
        wanted = MessageId.parse(id_)
    except ValueError as problem:
        raise InvalidParameterError("id", problem=str(problem), fix="copy it from a message") from problem
    found = await api.why.about(wanted)
    if hops:
        found["hops"] = await _hops(api, wanted)
    return answer(found)


async def _hops(api: Api, wanted: MessageId) -> list[dict[str, Any]]:
    hops = []
    for peer in () if api.daemon is None else api.daemon.config.peers:
        if not peer.url:
            continue
        try:
            said = await peer_apis.ask(peer, "why", {"id": str(wanted)})
            hops.append({"name": peer.name, "answer": said, "error": None})
        except peer_apis.PeerFailedError as problem:
            hops.append({"name": peer.name, "answer": None, "error": str(problem)})
    return hops


@router.get("/explain", **needs(Role.READ, Role.SEND), response_model=Explanation)
async def explain_queue(
    api: Context,
    queue: Annotated[str, Query(max_length=4000, description="the queue, by any name that sending takes")],
    transactional: Annotated[bool, Query()] = False,
    size: Annotated[int, Query(ge=0, le=2 * MAX_PACKET_SIZE, description="bytes of the message")] = 0,
    signed: Annotated[bool, Query()] = False,
    encrypted: Annotated[bool, Query()] = False,
    account: Annotated[
        str | None, Query(max_length=200, description="SID of the sender, `everyone` or `anonymous`")
    ] = None,
    network: Annotated[bool, Query(description="look up the computer and connect to it")] = True,
    peer: Annotated[bool, Query(description="ask the API of the computer, if [[peers]] has its url")] = False,
) -> Response:
    """Whether a message would reach a queue. Nothing is created or sent."""
    explained = await explain(api.runner, queue, Planned(size, transactional, signed, encrypted), account)
    if explained.goal is not None and explained.would_go:
        if network and api.daemon is not None:
            await reachability.try_to_reach(api.daemon, explained)
        if peer:
            query = {
                "queue": str(explained.goal.path.with_computer(".")),
                "size": str(size),
                "network": "false",
            }
            query |= {"transactional": str(transactional).lower(), "signed": str(signed).lower()}
            await reachability.ask_peer(api.daemon, explained, query)
    return answer(explained.as_json())
