"""Asking the HTTP APIs of other queue managers, which `[[peers]]` names by `url`.

Their answers are what they say: text to show, never something to act on.
"""

import asyncio
import http.client
import json
import ssl
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from tiercel.api.paths import API
from tiercel.binary.settings import Peer

_TIMEOUT_S: Final = 5.0
_MAX_ANSWER_BYTES: Final = 1 << 20


class PeerFailedError(Exception):
    """It gave no answer, and why."""


async def ask(peer: Peer, path: str, query: dict[str, str]) -> dict[str, Any]:
    """In a thread: the event loop has no HTTP client, and a peer may take its time."""
    try:
        async with asyncio.timeout(2 * _TIMEOUT_S):
            return await asyncio.to_thread(_ask, peer, f"{API}/{path}?{urlencode(query)}")
    except TimeoutError as problem:
        raise PeerFailedError("no answer in time") from problem


def _ask(peer: Peer, target: str) -> dict[str, Any]:
    url, headers = urlsplit(peer.url), {"Accept": "application/json"}
    try:
        if peer.token_file:
            headers["Authorization"] = f"Bearer {Path(peer.token_file).read_text('utf-8').strip()}"
        connection = _connection(url.scheme, str(url.hostname), url.port)
        try:
            connection.request("GET", target, headers=headers)
            response = connection.getresponse()
            body = response.read(_MAX_ANSWER_BYTES + 1)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as problem:
        raise PeerFailedError(str(problem) or type(problem).__name__) from problem
    return _read(response.status, body)


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=ssl.create_default_context())


def _read(status: int, body: bytes) -> dict[str, Any]:
    if len(body) > _MAX_ANSWER_BYTES:
        raise PeerFailedError("its answer is too large")
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise PeerFailedError(f"status {status}, and its answer is not JSON") from problem
    if not isinstance(answer, dict):
        raise PeerFailedError(f"status {status}, and its answer is not an object")
    if status != 200:
        raise PeerFailedError(f"status {status}: {str(answer.get('detail', ''))[:200]}")
    return answer
