"""PendingRequestTable: waiting reads, and delivered messages that are not acknowledged yet.

[MS-MQRR] 3.1.1.2, 3.1.1.3, 3.1.2.2. The key is the handle and the reader's request id. All waiting reads are
here, peeks included, so that each can be cancelled (MQRR trap 8).

    read of an empty queue  -> waiting -> delivered, or forgotten: a peek, a failure, cancelled
    receive with a message             -> delivered -> forgotten: ended, timed out, handle closed
"""

from collections import OrderedDict
from dataclasses import dataclass
from math import ceil

from tiercel.engine.handles import Waiter
from tiercel.engine.transaction import Transaction
from tiercel.remote_read.actions import CallId
from tiercel.remote_read.calls import StartReceive
from tiercel.remote_read.handles import QueueHandle


@dataclass(slots=True, eq=False)
class PendingRequest:
    call: CallId
    handle: QueueHandle
    arguments: StartReceive
    is_receive: bool
    transaction: Transaction | None = None
    waiter: Waiter | None = None  # while waiting
    lookup_id: int | None = None  # of the delivered message

    @property
    def is_express(self) -> bool:
        """Whether its message lives in memory only."""
        queue = self.handle.opened.state
        return queue is not None and self.lookup_id in queue.express

    @property
    def is_waiting(self) -> bool:
        """Whether it has neither a message nor an error yet."""
        return self.waiter is not None and not self.waiter.is_done


class PendingRequests:
    def __init__(self, cleanup_s: float) -> None:
        self._cleanup_s = cleanup_s
        self._of_handle: dict[QueueHandle, dict[int, PendingRequest]] = {}
        self._by_call: dict[CallId, PendingRequest] = {}
        self._by_waiter: dict[Waiter, PendingRequest] = {}
        # The deadline of each delivered request. The time limit is the same for all, so they are in order.
        self._overdue_at: OrderedDict[PendingRequest, float] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._of_handle.values()))

    def find(self, handle: QueueHandle, request_id: int) -> PendingRequest | None:
        return self._of_handle.get(handle, {}).get(request_id)

    def of(self, handle: QueueHandle) -> list[PendingRequest]:
        return list(self._of_handle.get(handle, {}).values())

    def of_call(self, call: CallId) -> PendingRequest | None:
        """The request that is waiting in this call."""
        return self._by_call.get(call)

    def of_waiter(self, waiter: Waiter) -> PendingRequest | None:
        return self._by_waiter.get(waiter)

    def wait(self, request: PendingRequest, waiter: Waiter) -> None:
        request.waiter = waiter
        self._by_call[request.call] = request
        self._by_waiter[waiter] = request
        self._of_handle.setdefault(request.handle, {})[request.arguments.request_id] = request

    def deliver(self, request: PendingRequest, lookup_id: int, now: float) -> None:
        """Note a delivery; the time limit for its acknowledgement starts now (MQRR trap 7)."""
        self._stop_waiting(request)
        request.lookup_id = lookup_id
        self._of_handle.setdefault(request.handle, {})[request.arguments.request_id] = request
        self._overdue_at[request] = now + self._cleanup_s

    def forget(self, request: PendingRequest) -> None:
        self._stop_waiting(request)
        self._overdue_at.pop(request, None)
        requests = self._of_handle.get(request.handle, {})
        requests.pop(request.arguments.request_id, None)
        if not requests:
            self._of_handle.pop(request.handle, None)

    def _stop_waiting(self, request: PendingRequest) -> None:
        if request.waiter is not None:
            del self._by_call[request.call], self._by_waiter[request.waiter]
            request.waiter = None

    @property
    def next_deadline(self) -> float | None:
        """When to call `overdue`; rounded to whole seconds, so that timers are rarely reset."""
        return ceil(next(iter(self._overdue_at.values()))) if self._overdue_at else None

    def overdue(self, now: float) -> PendingRequest | None:
        """The oldest delivered request, if its deadline has passed."""
        request, deadline = next(iter(self._overdue_at.items()), (None, now))
        return request if deadline <= now else None
