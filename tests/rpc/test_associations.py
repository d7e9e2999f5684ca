"""[MS-RPCE] 3.3.1.4.1 and 3.3.1.5.7; MQRR traps 27 and 28."""

import pytest

from tiercel.rpc import associations
from tiercel.rpc.associations import Association, Associations, Rundown
from tiercel.rpc.ndr import NULL_HANDLE, ContextHandle
from tiercel.rpc.pdu import Bind, BindNak
from tiercel.rpc.status import NCA_S_FAULT_CONTEXT_MISMATCH, NCA_S_FAULT_REMOTE_NO_MEMORY, RpcFault

from .scripted import ECHO, REMOTE_READ, Numbers, RawClient, make_service, offer, request


def group_of(raw: RawClient) -> Association:
    association = raw.server.association
    assert association is not None
    return association


class TestGroups:
    def test_numbers_are_the_servers_and_never_zero(self) -> None:
        draws = [bytes(4), b"\1\0\0\0", b"\1\0\0\0", bytes(4), b"\2\0\0\0"]
        found = Associations(lambda _: draws.pop(0))
        groups = [found.join(0, "a"), found.join(0, "a")]
        assert [group and group.group_id for group in groups] == [1, 2]

    def test_unknown_group(self) -> None:
        raw = RawClient(make_service())
        assert raw.send(Bind(assoc_group_id=77, contexts=(offer(0),))) == [BindNak()]

    def test_group_of_another_computer(self) -> None:
        service = make_service()
        group_id = RawClient(service, "192.0.2.1").bind().assoc_group_id
        stranger = RawClient(service, "192.0.2.2")
        assert stranger.send(Bind(assoc_group_id=group_id)) == [BindNak()]
        assert RawClient(service, "192.0.2.1").bind(group_id=group_id).assoc_group_id == group_id

    def test_a_group_that_ended_is_unknown(self) -> None:
        service = make_service()
        raw = RawClient(service)
        group_id = raw.bind().assoc_group_id
        raw.server.connection_lost()
        assert len(service.associations) == 0
        assert RawClient(service).send(Bind(assoc_group_id=group_id)) == [BindNak()]


class TestHandles:
    @pytest.mark.conformance("MQRR-136")
    def test_a_handle_lives_as_long_as_its_group(self) -> None:
        service = make_service()
        first, second = RawClient(service), RawClient(service)
        group_id = first.bind().assoc_group_id
        assert second.bind(group_id=group_id).assoc_group_id == group_id
        first.send(request(2, context_id=1))
        handle = first.calls()[0].association.open_handle(REMOTE_READ, "queue")
        second.send(request(2, context_id=1))
        assert second.calls()[0].association.find_handle(REMOTE_READ, handle) == "queue"
        assert Rundown(REMOTE_READ, "queue") not in first.server.connection_lost()
        second.send(request(3, context_id=1))
        assert second.calls()[1].association.find_handle(REMOTE_READ, handle) == "queue"
        assert second.server.connection_lost()[-1] == Rundown(REMOTE_READ, "queue")

    def test_rundown_comes_after_the_abandoned_calls(self) -> None:
        raw = RawClient(make_service())
        raw.bind()
        raw.send(request(2))
        group_of(raw).open_handle(ECHO, 1)
        group_of(raw).open_handle(ECHO, 2)
        kinds = [type(event).__name__ for event in raw.server.connection_lost()]
        assert kinds == ["Abandoned", "Rundown", "Rundown"]

    def test_strict_by_interface(self) -> None:
        group = Association(1, "a", Numbers())
        handle = group.open_handle(REMOTE_READ, "queue")
        cases = [(ECHO, handle), (REMOTE_READ, NULL_HANDLE), (REMOTE_READ, ContextHandle(1, handle.uuid))]
        for interface, wrong in cases:
            for act in (group.find_handle, group.close_handle):
                with pytest.raises(RpcFault) as caught:
                    act(interface, wrong)
                assert caught.value.status == NCA_S_FAULT_CONTEXT_MISMATCH
        assert group.find_handle(REMOTE_READ, handle) == "queue"

    def test_a_closed_handle_is_nobodys(self) -> None:
        group = Association(1, "a", Numbers())
        handle = group.open_handle(REMOTE_READ, "queue")
        assert group.close_handle(REMOTE_READ, handle) == "queue"
        with pytest.raises(RpcFault):
            group.close_handle(REMOTE_READ, handle)
        assert group.run_down() == []

    def test_another_groups_handle(self) -> None:
        numbers = Numbers()
        first, second = Association(1, "a", numbers), Association(2, "a", numbers)
        handle = first.open_handle(REMOTE_READ, "queue")
        second.open_handle(REMOTE_READ, "other")
        with pytest.raises(RpcFault):
            second.find_handle(REMOTE_READ, handle)

    def test_handles_are_distinct_and_not_null(self) -> None:
        draws = [bytes(16), bytes([1] * 16), bytes([1] * 16), bytes([2] * 16)]
        group = Association(1, "a", lambda _: draws.pop(0))
        found = {group.open_handle(ECHO, n) for n in range(2)}
        assert len(found) == 2
        assert NULL_HANDLE not in found

    def test_handles_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(associations, "HANDLES_MAX", 2)
        group = Association(1, "a", Numbers())
        group.open_handle(ECHO, 1)
        handle = group.open_handle(ECHO, 2)
        with pytest.raises(RpcFault) as caught:
            group.open_handle(ECHO, 3)
        assert caught.value.status == NCA_S_FAULT_REMOTE_NO_MEMORY
        group.close_handle(ECHO, handle)
        group.open_handle(ECHO, 3)
