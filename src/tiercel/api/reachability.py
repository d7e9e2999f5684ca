"""Whether the computer of a queue can be reached: its name is looked up and its port opened, once."""

import asyncio
import os
import time
from contextlib import suppress
from errno import errorcode
from typing import Final

from tiercel.admin.explain import Explained
from tiercel.api import peer_apis
from tiercel.binary.settings import Peer
from tiercel.engine.preflight import Result
from tiercel.server.daemon import Daemon

_TIMEOUT_S: Final = 3.0
_MAX_ADDRESSES: Final = 3
_RESULTS: Final = frozenset(Result)


async def try_to_reach(daemon: Daemon, explained: Explained) -> None:
    """Adds what the network says about the host of a queue."""
    goal = explained.goal
    assert goal is not None
    host = goal.host
    configured = host.casefold() in daemon.config.hosts
    try:
        async with asyncio.timeout(2 * _TIMEOUT_S):  # with the wait for its turn
            addresses = await daemon.network.resolver.resolve(host, _TIMEOUT_S)
    except (OSError, RuntimeError):  # no answer, or no thread for the lookup
        explained.add(Result.FAIL, f"no answer from DNS about {host}")
        return
    if not addresses:
        fix = "correct it, or add it to DNS or [hosts]"
        explained.add(Result.FAIL, f"unknown computer name: {host}; {fix}")
        return
    source = "[hosts] says" if configured else "the name leads to"
    shown = ", ".join(addresses[:_MAX_ADDRESSES])
    explained.add(Result.OK, f"{source} {shown}")
    port = goal.port or daemon.config.binary.port
    await _connect(daemon, explained, addresses[:_MAX_ADDRESSES], port)
    if not goal.is_http and _peer_of(daemon, host, has_tls=True) is None:
        explained.add(Result.WARN, f"plain text: {host} has no tls in [[peers]]")


async def _connect(daemon: Daemon, explained: Explained, addresses: list[str], port: int) -> None:
    problems = []
    for address in addresses:
        endpoint = daemon.network.resolver.endpoint(address, port)
        began = time.monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        except (OSError, TimeoutError) as problem:
            problems.append(f"{endpoint}: {_words(problem)}")
            continue
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        explained.add(Result.OK, f"{endpoint} answers in {(time.monotonic() - began) * 1000:.0f} ms")
        return
    fix = "start the queue manager there, or open its port; messages wait until then"
    explained.add(Result.FAIL, f"cannot connect to {'; '.join(problems)}; {fix}")


def _words(problem: OSError | TimeoutError) -> str:
    if isinstance(problem, TimeoutError):
        return f"no answer in {_TIMEOUT_S:.0f} s"
    if (
        problem.errno is not None and problem.errno in errorcode
    ):  # asyncio has a text of its own: Connect call failed ('127.0.0.1', 1801)
        return os.strerror(problem.errno)
    return problem.strerror or str(problem)


async def ask_peer(daemon: Daemon | None, explained: Explained, query: dict[str, str]) -> None:
    """Adds what the API of the destination says about its queue."""
    host = "" if explained.goal is None else explained.goal.host
    peer = None if daemon is None else _peer_of(daemon, host)
    if peer is None or not peer.url:
        text = f"whether {host} takes the message: set url of its API in [[peers]] to ask it"
        explained.add(Result.UNKNOWN, text)
        return
    try:
        answer = await peer_apis.ask(peer, "explain", query)
        findings = [(str(each["result"]), str(each["text"])) for each in answer["findings"]]
    except peer_apis.PeerFailedError as problem:
        explained.add(Result.UNKNOWN, f"{peer.name} ({peer.url}) gave no answer: {problem}")
    except (KeyError, TypeError):
        explained.add(Result.UNKNOWN, f"{peer.name} ({peer.url}) gave an answer that is not understood")
    else:
        for result, text in findings[:20]:
            known = Result(result) if result in _RESULTS else Result.UNKNOWN
            explained.add(known, f"{peer.name}: {text[:500]}")


def _peer_of(daemon: Daemon, host: str, *, has_tls: bool = False) -> Peer | None:
    for peer in daemon.config.peers:
        names = {peer.name.casefold(), *(each.casefold() for each in peer.addresses)}
        if host.casefold() in names and (peer.tls or not has_tls):
            return peer
    return None
