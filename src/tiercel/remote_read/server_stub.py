"""Between RPC connections and the service: decodes calls and encodes their answers.

    stub.take_all(connection, connection.receive(data))                       # inside a batch
    for action in service.take_actions(): stub.perform(action)                # after its commit

Answers are queued on their connections. `perform` returns the actions that are left to the caller.
"""

from collections.abc import Sequence
from typing import cast

from tiercel.remote_read.actions import Action, Enlist, Reply
from tiercel.remote_read.calls import EndReceive, StartReceive, split_request
from tiercel.remote_read.handles import Caller, QueueHandle
from tiercel.remote_read.service import RemoteReadService
from tiercel.rpc.associations import Rundown
from tiercel.rpc.ndr import NdrError
from tiercel.rpc.server import Abandoned, Call, Cancelled, Event, ServerConnection
from tiercel.rpc.status import RpcFault
from tiercel.rpc.verification import check_trailer

_START = StartReceive.OPNUM


class ServerStub:
    def __init__(self, service: RemoteReadService) -> None:
        self._service = service

    def take_all(self, connection: ServerConnection, events: Sequence[Event]) -> Sequence[Event]:
        """Take events that arrived together; returns those that are left for later, if answers are large.

        An acknowledgement with a receive behind it is not awaited: the client has already moved on.
        """
        last = len(events) - 1
        while last >= 0 and not _is_start(events[last]):
            last -= 1
        for at, event in enumerate(events):
            if self._service.is_full:
                return events[at:]
            if isinstance(event, Call):
                self._call(connection, event, is_waiting=at > last)
            else:
                self.take(connection, event)
        return ()

    def take(self, connection: ServerConnection, event: Event) -> None:
        """An event of the RemoteRead interface other than a call."""
        match event:
            case Cancelled(call):
                self._service.cancel((connection, call))
            case Abandoned(call):
                self._service.abandon((connection, call))
            case Rundown(value=QueueHandle() as handle):
                self._service.run_down(handle)

    def _call(self, connection: ServerConnection, call: Call, *, is_waiting: bool) -> None:
        try:
            request, rest = split_request(call.opnum, call.stub)
            if rest:
                check_trailer(call, rest)
        except (NdrError, RpcFault) as error:
            connection.fault(call, error.status)
            return
        if is_waiting or type(request) is not EndReceive:
            self._service.call((connection, call), Caller.of(call), request)
        else:
            self._service.postpone((connection, call), Caller.of(call), request)

    @staticmethod
    def perform(action: Action) -> Enlist | None:
        if isinstance(action, Enlist):
            return action
        connection, call = cast("tuple[ServerConnection, Call]", action.call)
        if isinstance(action, Reply):
            connection.reply(call, action.response.encode())
        else:
            connection.fault(call, action.status)
        return None


def _is_start(event: Event) -> bool:
    return isinstance(event, Call) and event.opnum == _START
