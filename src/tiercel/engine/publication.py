"""A batch of stages on its way into the queues: prepared and stored in slices, and committed all at once.

Prepared messages are kept in memory, like the sends of any transaction, and count for the quotas. Stored ones
are hidden until the commit. A crash before it leaves the stages as they were; after it they are gone and the
messages are there.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from tiercel.engine.core import Core
from tiercel.engine.handles import OpenQueue
from tiercel.engine.opening import Opening
from tiercel.engine.sending import Sending
from tiercel.engine.stage_records import RowMarks, Stage, StageId, chunk_key, decode_chunk
from tiercel.engine.transactions import Transactions
from tiercel.engine.unpublished import is_plain
from tiercel.model.codes import AuthenticationLevel, QueueAccess
from tiercel.model.errors import (
    InvalidParameterError,
    MqError,
    StageNotFoundError,
    StageRefusedError,
    StoreDamagedError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.message import CORRELATION_ID_BYTES, Message
from tiercel.security.access import Token
from tiercel.store.interface import Keyspace
from tiercel.wire.user_message import UserMessage

Row = tuple[FormatName, Message]
RowsOf = Callable[[bytes], Iterable[Row]]
ToSign = tuple[Message, UserMessage, AuthenticationLevel]

SLICE = 500  # messages in one turn: some ten milliseconds
_SLICE_BYTES = 4 * 2**20
_NO_CORRELATION = bytes(CORRELATION_ID_BYTES)


class Published(NamedTuple):
    messages: int  # how many there are
    already: bool  # an earlier publish did it, and this one did nothing


class Publication:
    """Call `prepare` until it says that all is done, then `store`, then `commit`; or `abort`, at any time.

    An error of `prepare` or `commit` has aborted it: nothing is published, and the stages are still there.
    """

    def __init__(
        self,
        core: Core,
        transactions: Transactions,
        opening: Opening,
        sending: Sending,
        stages: Sequence[Stage],
        rows_of: RowsOf,
        token: Token,
        ended: Callable[[int | None], None],
        *,
        transactional: bool,
    ) -> None:
        """`ended` is told how many messages were published, or None when none was."""
        self.rows = sum(stage.rows for stage in stages)
        self.prepared = 0
        self._core = core
        self._transactions = transactions
        self._opening = opening
        self._sending = sending
        self._rows_of = rows_of
        self._token = token
        self._ended = ended
        self._opened: dict[FormatName, OpenQueue] = {}
        self._messages = self._read(stages)
        self._are_plain = True
        self._taken: list[Row] | None = None  # by `to_sign`, for the next `prepare`
        self._has_taken_all = False
        begin = transactions.begin if transactional else transactions.begin_group
        self._transaction = begin()
        self._is_open = True
        # Staged rows become messages, and must not count twice meanwhile.
        self._staged_bytes = sum(stage.size_bytes for stage in stages)
        core.total_bytes -= self._staged_bytes

    def prepare(self, limit: int = SLICE) -> bool:
        """Prepares the next messages; True when all are prepared."""
        with self._aborting():
            rows = self._take(limit) if self._taken is None else self._taken
            self._taken = None
            operations = self._transaction.operations
            before = len(operations)
            for name, group in groupby(rows, itemgetter(0)):
                messages = [message for _, message in group]
                self._sending.send_many(self._queue(name), messages, self._transaction)
            self.prepared += len(rows)
            self._are_plain = self._are_plain and all(map(is_plain, operations[before:]))
            return self._has_taken_all

    def store(self, limit: int = SLICE) -> bool:
        """Stores the next messages, hidden from readers, when all are prepared; True when `commit` is short.

        A small batch, and one with messages that are not plain, is stored by `commit`.
        """
        assert self._has_taken_all
        with self._aborting():
            is_large = self.prepared > limit
            return not (is_large and self._are_plain) or self._transactions.store_ahead(
                self._transaction, limit
            )

    def to_sign(self, certificate: bytes, limit: int = SLICE) -> list[ToSign]:
        """The next messages, which the caller signs before it calls `prepare`: that takes too long here."""
        with self._aborting():
            self._taken = self._take(limit)
            is_transactional = self._transaction.number is not None
            return [
                (
                    message,
                    *self._sending.to_sign(
                        self._queue(name), message, certificate, is_transactional=is_transactional
                    ),
                )
                for name, message in self._taken
            ]

    def _take(self, limit: int) -> list[Row]:
        rows, size = [], 0
        for row in islice(self._messages, limit):
            rows.append(row)
            size += len(row[1].body)
            if size >= _SLICE_BYTES:
                break
        self._has_taken_all = len(rows) < limit and size < _SLICE_BYTES
        return rows

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        self._check_open()
        try:
            yield
        except MqError:
            self.abort()
            raise

    def commit(self) -> Published:
        """Puts the messages into their queues, and has it remembered; the stages of the batch are gone."""
        while not self.prepare():
            pass
        try:
            self._transactions.commit(self._transaction.id)
        except MqError:
            self.abort()
            raise
        self._end(self.prepared)
        return Published(self.prepared, already=False)

    def abort(self) -> None:
        """Leaves everything as it was; after the end this is nothing."""
        if self._is_open:
            self._transactions.abort_if_active(self._transaction)
            self._end(None)

    def _end(self, published: int | None) -> None:
        self._is_open = False
        self._messages.close()
        self._core.total_bytes += self._staged_bytes
        for opened in self._opened.values():
            self._opening.close(opened)
        self._ended(published)

    def _check_open(self) -> None:
        if not self._is_open:
            problem = "it has ended: committed, aborted, or its batch was discarded"
            raise StageRefusedError("publication", problem=problem, fix="begin another")

    def _queue(self, name: FormatName) -> OpenQueue:
        opened = self._opened.get(name)
        if opened is None:
            opened = self._opened[name] = self._opening.open(name, QueueAccess.SEND, token=self._token)
        return opened

    def _read(self, stages: Sequence[Stage]) -> Generator[Row]:
        for stage in stages:
            marks = RowMarks(stage.id)
            for chunk in range(stage.chunks):
                for name, message in self._read_chunk(stage.id, chunk):
                    mark = marks.next()
                    # A message that was one before, with a destination, stays as it was.
                    if message.correlation_id == _NO_CORRELATION and message.destination_queue is None:
                        message.correlation_id = mark
                    yield name, message

    def _read_chunk(self, stage: StageId, number: int) -> Iterator[Row]:
        what = f"chunk {number} of stage {stage}"
        data = self._core.batch.get(Keyspace.STAGED, chunk_key(stage.key, number))
        if data is None:
            raise StageNotFoundError(what)
        try:
            rows, payload = decode_chunk(data)
        except StoreDamagedError as damage:
            raise StageNotFoundError(what, problem=damage.problem, fix="stage it again") from damage
        count = 0
        for row in self._rows(payload, what):
            count += 1
            yield row
        if count != rows:
            problem = "it does not hold the rows that were announced"
            raise InvalidParameterError(what, problem=problem, present=count, limit=rows)

    def _rows(self, payload: bytes, what: str) -> Iterator[Row]:
        """The rows of a payload; errors of the caller's code must not stop the queue manager."""
        try:
            yield from self._rows_of(payload)
        except MqError:
            raise
        except Exception as error:
            raise InvalidParameterError(what, problem=f"its rows cannot be read ({error!r})") from error


@dataclass(frozen=True, slots=True)
class PublishedBefore:
    """In the place of a publication when there is nothing left to do."""

    published: Published
    rows: int = 0
    prepared: int = 0

    def prepare(self, limit: int = SLICE) -> bool:
        """All is done."""
        del limit
        return True

    def to_sign(self, certificate: bytes, limit: int = SLICE) -> list[ToSign]:
        del certificate, limit
        return []

    def store(self, limit: int = SLICE) -> bool:
        del limit
        return True

    def commit(self) -> Published:
        return self.published

    def abort(self) -> None:
        """Nothing was begun."""
