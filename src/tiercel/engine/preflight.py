"""Whether a message would be taken: the checks of sending, one by one and without effect."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from tiercel.engine.access import Access
from tiercel.engine.admission import Admission, refusal_error
from tiercel.engine.catalog import Catalog
from tiercel.engine.queue_state import QueueState
from tiercel.engine.quotas import Quotas
from tiercel.engine.resolver import Resolver
from tiercel.model.codes import QueueAccessMask
from tiercel.model.errors import MqError
from tiercel.model.format_name import FormatName
from tiercel.model.limits import INFINITE, MAX_PACKET_SIZE
from tiercel.model.queue import OutgoingQueue
from tiercel.security.access import Token

_WRITE = QueueAccessMask.WRITE_MESSAGE


class Result(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    result: Result
    text: str
    error: MqError | None = None  # that sending would give


class Planned(NamedTuple):
    """A message that somebody thinks of sending."""

    size: int = 0  # bytes of its packet
    transactional: bool = False
    signed: bool = False
    encrypted: bool = False


class Preflight:
    def __init__(
        self, catalog: Catalog, resolver: Resolver, access: Access, quotas: Quotas, admission: Admission
    ) -> None:
        self._catalog = catalog
        self._resolver = resolver
        self._access = access
        self._quotas = quotas
        self._admission = admission

    def findings(self, name: FormatName, planned: Planned, token: Token | None) -> Iterator[Finding]:
        """Each check and its result. Checks go on after a failure, unless there is no queue.

        `token` is the account that would send; None for the owner of the queue manager.
        """
        try:
            state = self._resolver.route(name)
        except MqError as error:
            yield _failed(error)
            return
        if self._resolver.is_local(name) and state is not None:
            if not self._catalog.is_visible(state):
                yield Finding(Result.FAIL, "applications cannot send to a queue of the system")
                return
            yield Finding(Result.OK, f"the queue exists on this computer: {state.queue.pathname}")
            yield from self._local(state, planned, token)
        else:
            waiting = 0 if state is None else state.count
            waits = f", with {waiting} messages waiting" if waiting else ""
            yield Finding(Result.OK, f"a queue of another computer; messages wait here for it{waits}")
            if state is not None and isinstance(state.queue, OutgoingQueue) and state.queue.reason:
                yield Finding(Result.WARN, state.queue.reason)
        yield self._room(planned.size)

    def _local(self, state: QueueState, planned: Planned, token: Token | None) -> Iterator[Finding]:
        kind = "transactional" if state.queue.transactional else "not transactional"
        refusal = self._admission.check_transaction(state, is_transactional=planned.transactional)
        if refusal is None:
            yield Finding(Result.OK, f"the queue is {kind}, and so is the message")
        else:
            yield _failed(refusal_error(state, refusal))
        refusal = self._admission.check_protection(
            state, is_signed=planned.signed, is_encrypted=planned.encrypted
        )
        if refusal is not None:
            yield _failed(refusal_error(state, refusal))
        if token is not None:
            yield self._right(state, token)
        yield self._quota(state, planned.size)

    def _right(self, state: QueueState, token: Token) -> Finding:
        if self._access.allows(state, _WRITE, token):
            return Finding(Result.OK, f"{token.user} may write to it")
        try:
            self._access.check(state, _WRITE, token)
        except MqError as error:
            return _failed(error)
        raise AssertionError("check raises where allows is false")

    def _quota(self, state: QueueState, size: int) -> Finding:
        try:
            self._quotas.check_queue(state, size)
        except MqError as error:
            return _failed(error)
        quota = state.queue.quota_kib
        limit = "no quota" if quota == INFINITE else f"{quota} KiB quota"
        return Finding(Result.OK, f"the queue has room: {state.used_bytes // 1024} KiB used, {limit}")

    def _room(self, size: int) -> Finding:
        if size > MAX_PACKET_SIZE:
            return Finding(Result.FAIL, f"a message has at most {MAX_PACKET_SIZE} bytes, not {size}")
        try:
            self._quotas.check_manager(size)
        except MqError as error:
            return _failed(error)
        quota = self._catalog.queue_manager.queue_manager_quota_kib
        limit = "no quota" if quota == INFINITE else f"{quota} KiB quota"
        return Finding(Result.OK, f"this computer has room ({limit})")


def _failed(error: MqError) -> Finding:
    return Finding(Result.FAIL, str(error), error)
