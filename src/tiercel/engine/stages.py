"""Staged sends: rows that tasks hand over, and that become messages when the whole job publishes them.

    stage     a task attempt hands over rows, in chunks; they are durable, and not visible
    publish   the stages that count become messages, in one transaction and once for an (app, batch)
    discard   the job failed: its stages go, and a late attempt is refused
    reap      abandoned stages are dropped by age

The outcome of a batch is remembered, so that publishing it twice has no effect. Spark retries only the last
batch of a stream, and may do so days later: of a stream, whose batches are numbers, the newest thousand are
remembered, and everything for thirty days. The newest thousand of all stay however old they seem: a clock
that was wrong and is set right may leap by months.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from tiercel.engine.core import Core
from tiercel.engine.opening import Opening
from tiercel.engine.publication import Publication, Published, PublishedBefore, RowsOf
from tiercel.engine.quotas import Quotas
from tiercel.engine.sending import Sending
from tiercel.engine.stage_records import (
    BY_AGE,
    BY_NAME,
    Chunk,
    Ending,
    Outcome,
    Stage,
    StageId,
    age_key,
    amount,
    check_names,
    chunk_key,
    decode_outcome,
    decode_stage,
    split_age_key,
)
from tiercel.engine.transactions import Transactions
from tiercel.model.errors import (
    IllegalPropertyVariantTypeError,
    InvalidParameterError,
    StageBusyError,
    StageNotFoundError,
    StageRefusedError,
)
from tiercel.model.limits import (
    PUBLISH_MAX_BYTES,
    PUBLISHED_KEPT_S,
    STAGE_CHUNK_MAX_BYTES,
    STAGE_KEPT_DEFAULT_S,
)
from tiercel.security.access import Token
from tiercel.store.interface import Keyspace

OUTCOMES_MAX = 100_000  # of all applications together
OUTCOMES_OF_STREAM = 1000  # the newest batches, where batches are numbers
OUTCOMES_KEPT = 1000  # however old
_FORGOTTEN_AT_ONCE = 100  # bounds the work of one publish
_HEAD_BYTES = 1024  # room for the key and head of a stage, or for the outcome of a batch
_LAST_NAME = b"\x7f"


class Stages:
    def __init__(
        self, core: Core, quotas: Quotas, transactions: Transactions, opening: Opening, sending: Sending
    ) -> None:
        self._core = core
        self._quotas = quotas
        self._transactions = transactions
        self._opening = opening
        self._sending = sending
        self._open: dict[bytes, Publication] = {}  # by app/batch
        self._reap_after_s = STAGE_KEPT_DEFAULT_S
        self._next_reap: int | None = None
        for stage in self.stages():
            core.total_bytes += stage.size_bytes
            self._reap_later(stage)

    # Staging.

    def stage(self, stage: StageId, chunk: int, payload: bytes, rows: int, *, keep_s: int = 0) -> Stage:
        """Keeps a chunk of rows; chunks come in order from 0, and one that comes again replaces the first.

        `keep_s` is for how long after its last chunk the stage waits to be published; 0 is the default.
        """
        _check_chunk(stage, chunk, payload, rows, keep_s)
        name = _name(stage.app, stage.batch)
        self._refuse_if_ended(name)
        if name in self._open:
            raise StageBusyError(f"stage {stage}", problem="its batch is just being published")
        now, batch = self._core.seconds, self._core.batch
        head = self._find(stage) or Stage(stage, now, now)
        if chunk > head.chunks:
            problem = "the chunks of a stage come in order"
            raise InvalidParameterError(f"stage {stage}", problem=problem, present=chunk, limit=head.chunks)
        key = chunk_key(stage.key, chunk)
        old_rows, old_size = amount(batch.get(Keyspace.STAGED, key)) if chunk < head.chunks else (0, 0)
        self._quotas.check_manager(len(payload))
        self._core.reserve(len(payload) + _HEAD_BYTES)
        grown = len(payload) - old_size
        head = head._replace(
            changed=now,
            keep_s=keep_s,
            chunks=max(head.chunks, chunk + 1),
            rows=head.rows + rows - old_rows,
            size_bytes=head.size_bytes + grown,
        )
        batch.put(Keyspace.STAGED, key, Chunk(rows, payload).encode())
        batch.put(Keyspace.STAGES, stage.key, head.encode())
        self._core.total_bytes += grown
        self._reap_later(head)
        return head

    def stages(self) -> Iterator[Stage]:
        """Everything that is staged and neither published nor discarded, in the order of the names."""
        return self._heads(b"", _LAST_NAME)

    def _heads(self, at_least: bytes, below: bytes) -> Iterator[Stage]:
        for key, data in self._core.batch.range(Keyspace.STAGES, at_least, below):
            if (stage := self._decode(key, data)) is not None:
                yield stage

    def _find(self, stage: StageId) -> Stage | None:
        data = self._core.batch.get(Keyspace.STAGES, stage.key)
        return None if data is None else self._decode(stage.key, data)

    def _decode(self, key: bytes, data: bytes) -> Stage | None:
        try:
            return decode_stage(key, data)
        except (ValueError, TypeError, struct.error) as problem:
            self._core.set_aside_row(Keyspace.STAGES, key, data, f"stage {key!a}", problem)
            return None

    def _remove(self, stages: Iterable[Stage]) -> int:
        batch, count = self._core.batch, 0
        for stage in stages:
            for chunk in range(stage.chunks):
                batch.delete(Keyspace.STAGED, chunk_key(stage.id.key, chunk))
            batch.delete(Keyspace.STAGES, stage.id.key)
            self._core.total_bytes -= stage.size_bytes
            count += 1
        return count

    def _of_batch(self, name: bytes) -> list[Stage]:
        return list(self._heads(name + b"/", name + b"0"))  # "0" comes after "/"

    # Publishing.

    def publish(
        self,
        app: str,
        batch: str,
        stages: Sequence[StageId],
        rows_of: RowsOf,
        token: Token,
        *,
        transactional: bool = True,
    ) -> Published:
        """Makes messages of the stages, in their order, and forgets all others of the batch; once."""
        return self.begin_publish(app, batch, stages, rows_of, token, transactional=transactional).commit()

    def begin_publish(
        self,
        app: str,
        batch: str,
        stages: Sequence[StageId],
        rows_of: RowsOf,
        token: Token,
        *,
        transactional: bool = True,
    ) -> Publication | PublishedBefore:
        """`publish` in slices, for callers that serve others meanwhile.

        `rows_of` makes messages of one chunk. Without `transactional` the messages belong to no transaction
        and go to queues that take such; they come into their queues together all the same.
        """
        name = _name(app, batch)
        if (before := self.outcome(app, batch)) is not None:
            return PublishedBefore(before)
        self._refuse_if_ended(name)
        if name in self._open:
            raise StageBusyError(f"batch {app}/{batch}")
        heads = [self._named(name, stage) for stage in dict.fromkeys(stages)]
        size = sum(head.size_bytes for head in heads)
        if size > PUBLISH_MAX_BYTES:
            problem = "it is too large to be published in one transaction"
            limit = f"{PUBLISH_MAX_BYTES} bytes"
            raise StageRefusedError(
                f"batch {app}/{batch}", problem=problem, present=size, limit=limit, fix="make smaller batches"
            )

        def ended(count: int | None) -> None:
            del self._open[name]
            if count is None:
                self._plan_reaping()
            else:
                self._remove(self._of_batch(name))
                self._remember(name, Outcome(Ending.PUBLISHED, self._core.seconds, count))

        self._core.reserve(_HEAD_BYTES)
        publication = Publication(
            self._core,
            self._transactions,
            self._opening,
            self._sending,
            heads,
            rows_of,
            token,
            ended,
            transactional=transactional,
        )
        self._open[name] = publication
        return publication

    def _named(self, name: bytes, stage: StageId) -> Stage:
        if _name(stage.app, stage.batch) != name:
            problem = "it belongs to another batch"
            raise InvalidParameterError(f"stage {stage}", problem=problem, limit=name.decode())
        head = self._find(stage)
        if head is None:
            raise StageNotFoundError(f"stage {stage}")
        return head

    def discard(self, app: str, batch: str, *, for_good: bool = True) -> int:
        """Drops the stages of a batch that is not published, and tells how many there were.

        With `for_good`, late attempts are refused. Without it, a stream that failed may stage the same batch
        again.
        """
        name = _name(app, batch)
        if (publication := self._open.get(name)) is not None:
            publication.abort()
        count = self._remove(self._of_batch(name))
        if for_good and self._outcome(name) is None:
            self._remember(name, Outcome(Ending.DISCARDED, self._core.seconds, 0))
        return count

    # Outcomes of batches.

    def outcome(self, app: str, batch: str) -> Published | None:
        """The result of an earlier publish, if there was one."""
        outcome = self._outcome(_name(app, batch))
        if outcome is None or outcome.ending is not Ending.PUBLISHED:
            return None
        return Published(outcome.messages, already=True)

    def _outcome(self, name: bytes) -> Outcome | None:
        data = self._core.batch.get(Keyspace.PUBLISHED, name)
        if data is None:
            return None
        try:
            return decode_outcome(data)
        except (ValueError, struct.error) as damage:  # better refused than done twice
            problem = "the record of its outcome is damaged"
            raise StageRefusedError(f"batch {name.decode()}", problem=problem) from damage

    def _refuse_if_ended(self, name: bytes) -> None:
        outcome = self._outcome(name)
        if outcome is not None:
            problem = f"it was {outcome.ending.name.lower()} already"
            raise StageRefusedError(f"batch {name.decode()}", problem=problem)

    def _remember(self, name: bytes, outcome: Outcome) -> None:
        batch = self._core.batch
        batch.put(Keyspace.PUBLISHED, name, outcome.encode())
        batch.put(Keyspace.PUBLISHED, age_key(outcome.time, name), b"")
        self._forget_of_stream(name)
        oldest = list(islice(batch.range(Keyspace.PUBLISHED, BY_AGE, BY_NAME), _FORGOTTEN_AT_ONCE))
        for key, _ in oldest:
            time, old = split_age_key(key)
            is_over = time + PUBLISHED_KEPT_S < self._core.seconds
            limit = OUTCOMES_KEPT if is_over else OUTCOMES_MAX
            if batch.count(Keyspace.PUBLISHED) <= 2 * limit:  # each has two keys
                break
            self._forget(time, old)

    def _forget_of_stream(self, name: bytes) -> None:
        app, _, number = name.rpartition(b"/")
        if not number.isdigit() or int(number) < OUTCOMES_OF_STREAM:
            return
        old = b"%s/%d" % (app, int(number) - OUTCOMES_OF_STREAM)
        data = self._core.batch.get(Keyspace.PUBLISHED, old)
        if data is not None:
            with suppress(ValueError, struct.error):
                self._forget(decode_outcome(data).time, old)

    def _forget(self, time: int, name: bytes) -> None:
        self._core.batch.delete(Keyspace.PUBLISHED, age_key(time, name))
        self._core.batch.delete(Keyspace.PUBLISHED, name)

    # Abandoned stages.

    @property
    def reap_after_s(self) -> int:
        """For how long after its last chunk a stage is kept that names no time of its own."""
        return self._reap_after_s

    @reap_after_s.setter
    def reap_after_s(self, seconds: int) -> None:
        self._reap_after_s = seconds
        self._plan_reaping()

    def reap(self, older_than_s: int) -> int:
        """Drops the stages whose last chunk came so long ago; how many there were."""
        latest = self._core.seconds - older_than_s
        return self._reap([stage for stage in self._idle() if stage.changed <= latest])

    @property
    def next_deadline(self) -> int | None:
        return self._next_reap

    def reap_due(self) -> None:
        """Drops the stages whose time is over."""
        if self._next_reap is not None and self._next_reap <= self._core.seconds:
            self._reap([stage for stage in self._idle() if self._deadline(stage) <= self._core.seconds])
            self._plan_reaping()

    def _reap(self, stages: list[Stage]) -> int:
        for stage in stages:
            sentence = f"{stage.rows} staged rows were never published, and their time was over"
            self._core.ledger.add_sentence(f"stage {stage.id}", stage.size_bytes, sentence)
        return self._remove(stages)

    def _idle(self) -> Iterator[Stage]:
        """The stages that are not just being published."""
        return (stage for stage in self.stages() if _name(*stage.id[:2]) not in self._open)

    def _plan_reaping(self) -> None:
        self._next_reap = None
        for stage in self._idle():
            self._reap_later(stage)

    def _reap_later(self, stage: Stage) -> None:
        deadline = self._deadline(stage)
        self._next_reap = deadline if self._next_reap is None else min(self._next_reap, deadline)

    def _deadline(self, stage: Stage) -> int:
        return stage.changed + (stage.keep_s or self._reap_after_s)


def _name(app: str, batch: str) -> bytes:
    check_names((app, batch))
    return f"{app}/{batch}".encode()


def _check_chunk(stage: StageId, chunk: object, payload: object, rows: object, keep_s: object) -> None:
    check_names(stage)
    if not isinstance(payload, bytes):
        kind = type(payload).__name__
        raise IllegalPropertyVariantTypeError(f"payload of stage {stage}", present=kind, limit="bytes")
    if len(payload) > STAGE_CHUNK_MAX_BYTES:
        raise InvalidParameterError(
            f"payload of stage {stage}",
            problem="it is too large",
            present=f"{len(payload)} bytes",
            limit=f"{STAGE_CHUNK_MAX_BYTES} bytes",
            fix="stage it in several chunks",
        )
    for what, number in (("chunk", chunk), ("rows", rows), ("keep_s", keep_s)):
        if not isinstance(number, int) or not 0 <= number <= 0xFFFF_FFFF:
            raise InvalidParameterError(f"{what} of stage {stage}", present=number, limit="0 to 2**32 - 1")
