"""Consumers and what they hold, on the reference model."""

from dataclasses import dataclass, field, replace
from itertools import count

from .reference import ACK_RECEIVE, Q_DELETED, Claim, Item, Letter, Queue, Refused
from .reference_calls import ReferenceModel

WAIT_S = 60


@dataclass(eq=False)
class Consumer:
    epoch: int
    claims: dict[Queue, Claim] = field(default_factory=dict)


class ClaimingModel(ReferenceModel):
    def __init__(self, now: float) -> None:
        super().__init__(now)
        self.consumers: dict[str, Consumer] = {}
        self._epochs = count(1)

    def attach(self, name: str) -> int:
        epoch = next(self._epochs)
        self.consumers.setdefault(name, Consumer(epoch)).epoch = epoch
        return epoch

    def forget(self, name: str) -> None:
        consumer = self._find(name)
        if any(claim.held for claim in consumer.claims.values()):
            raise Refused("IllegalOperationError")
        del self.consumers[name]
        for claim in consumer.claims.values():
            self._drop(claim)

    def claim(
        self, name: str, epoch: int, queue: Queue, limit: int, start: int | None, acknowledge: int
    ) -> tuple[int, int]:
        consumer = self._current(name, epoch)
        if any(handle.deny for handle in queue.handles):
            raise Refused("SharingViolationError")
        claim = consumer.claims.get(queue) or Claim(name, queue)
        if acknowledge > claim.hi:
            raise Refused("ClaimLostError")
        if start is not None and not max(claim.floor, acknowledge) <= start <= claim.hi:
            raise Refused("ClaimLostError")
        lo = claim.hi if start is None else start
        if lo == claim.hi:
            chosen = self._choose(queue, limit)
            if chosen and queue not in consumer.claims:
                consumer.claims[queue] = claim
                queue.claims.append(claim)
            for item in chosen:
                queue.items.remove(item)
                claim.hi += 1
                claim.held[claim.hi] = (item, int(self.now))
        self._end_claimed(claim, acknowledge, ACK_RECEIVE)
        return lo, claim.hi

    def acknowledge_claim(self, name: str, epoch: int, queue: Queue, up_to: int) -> int:
        claim = self._current(name, epoch).claims.get(queue) or Claim(name, queue)
        if up_to > claim.hi:
            raise Refused("ClaimLostError")
        return self._end_claimed(claim, up_to, ACK_RECEIVE)

    def release(self, name: str, queue: Queue | None, limit: int) -> int:
        consumer = self._find(name)
        consumer.epoch = next(self._epochs)
        claims = [claim for each, claim in consumer.claims.items() if queue in {None, each}]
        every = [(claim, seq) for claim in claims for seq in claim.held]
        for claim, seq in every[:limit]:
            item, claimed_at = claim.held.pop(seq)
            claim.floor = seq
            self._give_claimed_back(claim.queue, item, int(self.now) - claimed_at)
        for claim in claims:
            if not claim.held:
                claim.floor = claim.hi
        return len(every[limit:])

    def _give_claimed_back(self, queue: Queue, item: Item, held_s: int) -> None:
        deadline = item.letter.deadline
        if deadline is not None and not item.is_copy:
            item.letter = replace(item.letter, deadline=deadline + held_s)
        item.aborts += 1
        queue.items.append(item)
        queue.items.sort(key=lambda each: each.place)
        self.offer(queue, item)

    def end_claims(self, queue: Queue) -> None:
        for name in self.consumers:
            claim = self.consumers[name].claims.pop(queue, None)
            if claim is not None:
                self._end_claimed(claim, claim.hi, Q_DELETED)
                self._drop(claim)

    def restart(self) -> None:
        super().restart()
        self.consumers = dict(sorted(self.consumers.items()))
        for consumer in self.consumers.values():  # in the order in which the queues were made
            pairs = sorted(consumer.claims.items(), key=lambda pair: pair[0].number)
            consumer.claims = dict(pairs)

    def _end_claimed(self, claim: Claim, up_to: int, reason: int) -> int:
        ended = [seq for seq in claim.held if seq <= up_to]
        items = [claim.held.pop(seq)[0] for seq in ended]
        claim.floor = max(claim.floor, up_to)
        for item in items:
            self.finish(claim.queue, item, reason)
        return len(ended)

    def _drop(self, claim: Claim) -> None:
        claim.queue.claims.remove(claim)
        self.drop_empty_subqueue(claim.queue)

    def _find(self, name: str) -> Consumer:
        if name not in self.consumers:
            raise Refused("ConsumerNotFoundError")
        return self.consumers[name]

    def _current(self, name: str, epoch: int) -> Consumer:
        consumer = self._find(name)
        if consumer.epoch != epoch:
            raise Refused("ConsumerFencedError")
        return consumer

    def _choose(self, queue: Queue, limit: int) -> list[Item]:
        """As many as allowed, but no part of a transaction; more only if the first one has more."""
        visible = [item for item in queue.items if item.is_visible()]
        cuts = [size for size in range(1, len(visible) + 1) if self._is_whole(visible[:size])]
        allowed = [size for size in cuts if size <= limit] or cuts[:1]
        return visible[: allowed[-1]] if allowed else []

    def _is_whole(self, items: list[Item]) -> bool:
        streams = {item.letter.stream for item in items if item.letter.transactional}
        return not any(self._is_open([it for it in items if _is_in(it.letter, each)]) for each in streams)

    def _is_open(self, stream: list[Item]) -> bool:
        """Whether the transaction that ends the stream has more to come, and is still waited for."""
        if stream[-1].letter.is_last:
            return False
        first = len(stream) - 1
        while first and not stream[first].letter.is_first and _belong_together(stream[first - 1 : first + 1]):
            first -= 1
        return stream[first].arrived > int(self.now) - WAIT_S


def _is_in(letter: Letter, stream: int) -> bool:
    return letter.transactional and letter.stream == stream


def _belong_together(pair: list[Item]) -> bool:
    one, other = (item.letter for item in pair)
    return one.tx == other.tx and not one.is_last
