"""A service: operations by action, and a loop that calls them."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tiercel.framing.receiver import Receiver
from tiercel.model.errors import InvalidParameterError, MqError
from tiercel.wcf.calls import Operation
from tiercel.wcf.dispatcher import Clock, Dispatcher
from tiercel.wcf.endpoint import DEFAULT_NAMESPACE, Endpoint, EndpointBase
from tiercel.wcf.poison import PoisonPolicy, ReceiveErrorHandling
from tiercel.wcf.wsdl import OperationDescription, write_wsdl

_WAKE_S = 0.05
F = TypeVar("F", bound=Callable[..., Any])


class ServiceBase:
    """The operations of a service, and how it treats messages that fail."""

    def __init__(
        self,
        endpoint: EndpointBase,
        *,
        receive_retry_count: int = 5,
        max_retry_cycles: int = 2,
        retry_cycle_delay_s: float = 1800,
        receive_error_handling: str = "move",
        understands: Iterable[str] = (),
        clock: Clock = time.time,
    ) -> None:
        """`receive_error_handling` is move, drop, reject or fault.

        `understands` names headers, `{namespace}name`, that the operations look after when they are marked
        mustUnderstand.
        """
        try:
            handling = ReceiveErrorHandling(receive_error_handling)
        except ValueError:
            limit = ", ".join(each.value for each in ReceiveErrorHandling)
            fix = "choose one of them"
            name = "receive_error_handling"
            raise InvalidParameterError(name, present=receive_error_handling, limit=limit, fix=fix) from None
        if handling is ReceiveErrorHandling.REJECT:
            _check_can_reject(endpoint)
        self.endpoint = endpoint
        self.operations: dict[str, Operation] = {}
        self._described: list[OperationDescription] = []
        policy = PoisonPolicy(receive_retry_count, max_retry_cycles, retry_cycle_delay_s, handling)
        self._dispatcher = Dispatcher(
            Receiver(endpoint.address, endpoint.binding), self.operations, policy, frozenset(understands)
        )
        self._clock = clock

    def operation(
        self, action: str, *, namespace: str = DEFAULT_NAMESPACE, parameters: Mapping[str, Any] | None = None
    ) -> Callable[[F], F]:
        """Register a function for an action; "*" takes every action that has none of its own.

        `namespace` and `parameters` (their types by name) are for the WSDL alone.
        """

        def register(function: F) -> F:
            if action in self.operations:
                problem, fix = "it has an operation already", "register each action once"
                raise InvalidParameterError(f"action {action}", problem=problem, fix=fix)
            self.operations[action] = function
            if action != "*":
                self._described.append(OperationDescription(action, namespace, parameters))
            return function

        return register

    def wsdl(self, name: str) -> str:
        """The description of the service, from which svcutil makes a client in C#."""
        return write_wsdl(name, self.endpoint, self._described)


def _check_can_reject(endpoint: EndpointBase) -> None:
    """A message is rejected by the commit of the transaction that has received it."""
    if not endpoint.binding.exactly_once:
        problem = "a message that is not received in a transaction cannot be rejected"
    elif not endpoint.runner.has_transactions:
        problem = "a remote connection cannot reject messages: it has no transactions"
    else:
        return
    fix = "choose move, drop or fault, or serve an exactly-once endpoint with a queue manager of your own"
    name = "receive_error_handling"
    raise InvalidParameterError(name, problem=problem, present="reject", limit="move, drop, fault", fix=fix)


class Service(ServiceBase):
    """Serves an endpoint in a thread: one transaction for each message."""

    def __init__(self, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(endpoint, **options)
        self._run = endpoint.runner.run
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._thread: int | None = None

    def run(self, timeout: float | None = None) -> int:
        """Serve until `stop`, or until no message comes for `timeout` seconds; the number of messages.

        An operation that raises has its message tried again; its exception ends in the log.
        """
        count = 0
        self._stopping.clear()
        self._ended.clear()
        self._thread = threading.get_ident()
        self._run(self._dispatcher.open())
        try:
            while not self._stopping.is_set() and self._run(self._dispatcher.serve(timeout, self._clock)):
                count += 1
        except MqError:
            if not self._stopping.is_set():  # `stop` has ended the wait
                raise
        finally:
            self._ended.set()
            self._run(self._dispatcher.close())
        return count

    def stop(self) -> None:
        """End `run` after the message that it is working on; from another thread, wait for that."""
        self._stopping.set()
        if self._thread not in {None, threading.get_ident()}:
            while not self._ended.wait(_WAKE_S):
                self._run(self._dispatcher.wake())  # again and again: it may have been about to wait
