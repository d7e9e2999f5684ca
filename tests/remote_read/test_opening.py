"""[MS-MQRR] 2.1, 2.2.3, 2.2.4, 3.1.4.1 to 3.1.4.3, 3.1.4.11: who may open which queue, and how."""

from itertools import product
from uuid import uuid4

import pytest

from engine.harness import ALICE, BOB, SYSTEM, Box
from tiercel.model.codes import QueueAccess, QueueAccessMask, QueueFormatKind, RemoteReadState
from tiercel.model.errors import DtcConnectError, error_for_code
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.sid import ANONYMOUS, SecurityIdentifier
from tiercel.remote_read import calls
from tiercel.remote_read.handles import QueueHandle
from tiercel.remote_read.queue_format import QueueFormat
from tiercel.remote_read.settings import Settings
from tiercel.rpc.associations import Association
from tiercel.rpc.ndr import ContextHandle
from tiercel.rpc.security import AuthenticationLevel
from tiercel.rpc.syntax import Interface
from tiercel.security.access import Token
from tiercel.security.descriptor import SecurityDescriptor

from .site import MOVE, PEEK, PEEKING, RECEIVE, RECEIVING, Remote, Site, faults, queue_format, refused

INVALID_PARAMETER = 0xC00E0006
INVALID_HANDLE = 0xC00E0007
QUEUE_NOT_FOUND = 0xC00E0003
SHARING_VIOLATION = 0xC00E0009
ACCESS_DENIED = 0xC00E0025
RPC_ACCESS_DENIED = 0x5
CONTEXT_MISMATCH = 0x1C00001A
CAROL = Token.for_user(SecurityIdentifier.parse("S-1-5-21-1-2-3-1003"))
OPEN_HANDLE = Association.open_handle
LEVELS = list(AuthenticationLevel)[1:]
NONE = AuthenticationLevel.NONE

STRANGER = "0f3e2a10-5b7c-4f0e-9d3a-0a1b2c3d4e5f"  # the same in every process that collects tests


def grant(site: Site, box: Box, **rights: QueueAccessMask) -> None:
    """Gives accounts rights on a queue, and nobody else any."""
    sids = {"alice": ALICE.user, "bob": BOB.user, "anonymous": ANONYMOUS}
    aces = "".join(f"(A;;0x{mask:x};;;{sids[name]})" for name, mask in rights.items())
    security = SecurityDescriptor.parse(f"O:{ALICE.user}D:{aces}").encode()
    site.run(lambda: site.engine.queues.set_properties(box.state, SYSTEM, security=security))


class TestGetServerPort:
    @pytest.mark.parametrize("port", [2103, 2114, 0])
    def test_it_is_what_was_found_at_the_start(self, port: int) -> None:
        assert Site(port=port).reader().call(calls.GetServerPort()).port == port

    @pytest.mark.conformance("MQRR-012")
    def test_everybody_may_ask(self, site: Site, box: Box) -> None:
        grant(site, box)
        for stranger in (site.reader(CAROL), site.reader(Token.anonymous(), level=NONE)):
            assert stranger.call(calls.GetServerPort()).port == 2103
        with faults(ACCESS_DENIED):
            site.reader(CAROL).open("q")


class TestAuthorisation:
    @pytest.mark.conformance("MQRR-013")
    def test_the_queue_decides_by_the_caller(self, site: Site, box: Box) -> None:
        peek, receive = QueueAccessMask.PEEK_MESSAGE, QueueAccessMask.RECEIVE_MESSAGE
        grant(site, box, alice=receive | peek, bob=peek)
        may: dict[Token, set[int]] = {ALICE: {RECEIVE, PEEK}, BOB: {PEEK}, CAROL: set()}
        for token, access in product(may, (RECEIVE, PEEK)):
            if access in may[token]:
                site.reader(token).open("q", access)
            else:
                with faults(ACCESS_DENIED):
                    site.reader(token).open("q", access)

    def test_a_handle_serves_only_who_opened_it(self, site: Site, box: Box) -> None:
        """In one association group there may be several users."""
        grant(site, box, alice=QueueAccessMask.QUEUE_GENERIC_ALL)
        alice = site.reader(ALICE).open("q")
        bob = Remote(site.reader(BOB, group_id=alice.reader.group_id), alice.handle)
        with faults(RPC_ACCESS_DENIED):
            bob.purge()
        alice.purge()

    @pytest.mark.conformance("MQRR-015")
    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.usefixtures("box")
    def test_privacy_is_the_least_level(self, site: Site, level: AuthenticationLevel) -> None:
        if level is AuthenticationLevel.PRIVACY:
            site.reader(level=level).open("q")
            return
        with faults(RPC_ACCESS_DENIED):
            site.reader(level=level).open("q")

    def test_every_call_needs_it(self, site: Site, a: Remote) -> None:
        weaker = site.reader(level=AuthenticationLevel.INTEGRITY, group_id=a.reader.group_id)
        with faults(RPC_ACCESS_DENIED):
            Remote(weaker, a.handle).purge()
        with faults(RPC_ACCESS_DENIED):
            weaker.call(calls.EnlistRemoteTransaction(uuid4()))

    @pytest.mark.conformance("MQRR-017")
    def test_another_least_level_can_be_set(self) -> None:
        """DebugRpc"""
        site = Site(least_level=AuthenticationLevel.INTEGRITY)
        site.create("q")
        site.reader(level=AuthenticationLevel.INTEGRITY).open("q")
        with faults(RPC_ACCESS_DENIED):
            site.reader(level=AuthenticationLevel.PACKET).open("q")

    @pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
    def test_who_is_on_this_computer_needs_none_and_is_nobody(self, site: Site, box: Box, peer: str) -> None:
        local = site.reader(ALICE, level=NONE, peer=peer)
        with faults(ACCESS_DENIED):
            local.open("q")
        grant(site, box, anonymous=QueueAccessMask.PEEK_MESSAGE)
        local.open("q", PEEK)

    @pytest.mark.conformance("MQRR-016")
    @pytest.mark.parametrize("workgroup", [0, 1])
    @pytest.mark.parametrize("deny", [False, True])
    @pytest.mark.parametrize("allow", [False, True])
    def test_without_authentication(self, allow: bool, deny: bool, workgroup: int) -> None:
        site = Site(allow_unauthenticated=allow, deny_workgroup_clients=deny)
        box = site.create("q")
        grant(site, box, anonymous=QueueAccessMask.QUEUE_GENERIC_ALL)
        box.send(b"1")
        stranger = site.reader(Token.anonymous(), level=NONE)
        if allow and (workgroup or not deny):
            assert stranger.open("q", is_workgroup=workgroup).take() == b"1"
        else:
            with faults(RPC_ACCESS_DENIED):
                stranger.open("q", is_workgroup=workgroup)

    @pytest.mark.conformance("MQRR-018")
    def test_what_a_handle_said_of_its_client_counts_for_its_calls(self) -> None:
        site = Site(allow_unauthenticated=True, deny_workgroup_clients=True)
        box = site.create("q")
        grant(site, box, anonymous=QueueAccessMask.QUEUE_GENERIC_ALL)
        box.send(b"1")
        stranger = site.reader(Token.anonymous(), level=NONE)
        assert stranger.open("q", is_workgroup=1).take() == b"1"
        with faults(RPC_ACCESS_DENIED):
            stranger.open("q", is_workgroup=0)

    def test_and_for_calls_without_a_handle_as_long_as_it_is_open(self) -> None:
        site = Site(allow_unauthenticated=True, deny_workgroup_clients=True)
        box = site.create("q")
        grant(site, box, anonymous=QueueAccessMask.QUEUE_GENERIC_ALL)
        stranger = site.reader(Token.anonymous(), level=NONE)
        opened = stranger.open("q", is_workgroup=1)
        with refused(DtcConnectError.code):
            stranger.enlist(uuid4())
        opened.close()
        with faults(RPC_ACCESS_DENIED):
            stranger.enlist(uuid4())

    @pytest.mark.conformance("MQRR-017")
    def test_queues_that_are_open_to_nobody_in_particular(self) -> None:
        """NewRemoteReadServerAllowNoneSecurityClient"""
        site = Site(allow_anonymous=True)
        grant(site, site.create("open"), anonymous=QueueAccessMask.PEEK_MESSAGE)
        site.create("closed")
        for level in LEVELS[:-1]:
            stranger = site.reader(level=level)
            stranger.open("open", PEEK)
            with faults(ACCESS_DENIED):
                stranger.open("closed", PEEK)


class TestQueueFormat:
    @pytest.mark.conformance("MQRR-020", "MQRR-021")
    def test_the_kinds_that_can_be_opened(self, site: Site, box: Box) -> None:
        manager, private = site.engine.queue_manager.identifier, site.engine.queues.format_name(box.state)
        public = site.create(r".\orders").state.queue.identifier
        for name in (
            r"DIRECT=OS:HERE\private$\q",
            r"DIRECT=TCP:192.0.2.1\private$\q",
            r"DIRECT=OS:here.example.test\PRIVATE$\Q;JOURNAL",
            r"DIRECT=OS:HERE\private$\q;sub",
            str(private),
            f"{private};JOURNAL",
            f"PUBLIC={public}",
            f"MACHINE={manager};DEADLETTER",
            f"MACHINE={manager};DEADXACT",
            f"MACHINE={manager};JOURNAL",
        ):
            site.reader().open(name, PEEK)

    @pytest.mark.conformance("MQRR-020")
    @pytest.mark.parametrize("kind", [0, 5, 6, 7])
    def test_the_kinds_that_cannot(self, site: Site, kind: int) -> None:
        with faults(INVALID_PARAMETER):
            site.reader().call(calls.OpenQueue(QueueFormat(kind, text="x"), RECEIVE))

    @pytest.mark.conformance("MQRR-021")
    @pytest.mark.parametrize(
        "name",
        [
            "HTTP://HERE/msmq/private$/q",
            "HTTPS://HERE/msmq/private$/q",
            r"SPX:00000012.00a0234f7500\private$\q",
            r"NONSENSE:HERE\private$\q",
        ],
    )
    @pytest.mark.usefixtures("box")
    def test_of_direct_names_only_tcp_and_os(self, site: Site, name: str) -> None:
        waiting = site.reader().start(calls.OpenQueue(QueueFormat(QueueFormatKind.DIRECT, text=name), PEEK))
        with pytest.raises(Exception, match="0xC00E"):
            waiting.check()


class TestOpenQueue:
    @pytest.mark.conformance("MQRR-048", "MQRR-050")
    @pytest.mark.parametrize(
        "name",
        [
            "nobody",
            r"DIRECT=OS:elsewhere\private$\q",
            f"PUBLIC={STRANGER}",
            f"PRIVATE={STRANGER}\\1",
            "nobody;x",
        ],
    )
    @pytest.mark.parametrize("access", [RECEIVE, PEEK, MOVE])
    @pytest.mark.usefixtures("box")
    def test_a_queue_that_is_not_here(self, site: Site, name: str, access: int) -> None:
        with faults(QUEUE_NOT_FOUND):
            site.reader().open(name, access)

    @pytest.mark.conformance("MQRR-049")
    @pytest.mark.parametrize(
        ("access", "share"), [(0, 0), (2, 0), (0x21, 0), (4, 0), (0x81, 0), (1, 2), (0x20, 0xFFFFFFFF)]
    )
    def test_arguments_are_looked_at_first(self, site: Site, access: int, share: int) -> None:
        with faults(INVALID_PARAMETER):
            site.reader().call(calls.OpenQueue(queue_format("nobody"), access, share))

    @pytest.mark.conformance("MQRR-049")
    def test_the_kind_of_the_name_too(self, site: Site) -> None:
        with faults(INVALID_PARAMETER):
            site.reader().call(calls.OpenQueue(QueueFormat(QueueFormatKind.DL), RECEIVE))

    @pytest.mark.conformance("MQRR-051")
    def test_peek_access_only_peeks(self, site: Site, box: Box) -> None:
        box.send(b"1")
        peeking = site.reader().open("q", PEEK)
        assert peeking.peek().body == b"1"
        cursor = peeking.cursor()
        assert peeking.peek(cursor=cursor).body == b"1"
        lookup_id = peeking.peek().lookup_id
        target = peeking.reader.open("q;sub", MOVE)
        assert peeking.lookup(0x40000010, lookup_id).body == b"1"
        for action in (0, 0x40000020, 0x40000021, 0x40000022):
            with refused(ACCESS_DENIED):
                peeking.start(action, lookup_id=lookup_id if action else 0).check()
        with refused(0xC0000022):
            peeking.purge()
        with refused(ACCESS_DENIED):
            peeking.move(lookup_id, target)
        with refused(ACCESS_DENIED):
            peeking.receive(transaction=uuid4())
        assert box.bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-051")
    def test_receive_access_does_both(self, a: Remote, box: Box) -> None:
        box.send(b"1")
        assert a.peek().body == a.take() == b"1"

    @pytest.mark.conformance("MQRR-052")
    @pytest.mark.parametrize("ending", ["close", "vanish"])
    def test_alone(self, site: Site, ending: str) -> None:
        site.create("q")
        alone = site.reader().open("q", RECEIVE, 1)
        for share in (0, 1):
            with faults(SHARING_VIOLATION):
                site.reader().open("q", RECEIVE, share)
        if ending == "close":
            alone.close()
        else:
            alone.reader.vanish()
        site.reader().open("q", RECEIVE, 1)

    @pytest.mark.conformance("MQRR-052")
    def test_together(self, a: Remote, b: Remote) -> None:
        assert a.handle != b.handle

    @pytest.mark.conformance("MQRR-053")
    @pytest.mark.parametrize("share", [0, 1])
    @pytest.mark.parametrize("access", [RECEIVE, PEEK])
    def test_what_the_engine_is_asked(
        self, site: Site, monkeypatch: pytest.MonkeyPatch, access: int, share: int
    ) -> None:
        site.create("q")
        site.reader().open("q", access, share)
        (opened,) = site.box("q").state.handles.values()
        assert (opened.access, opened.share) == (access, share)
        for code in (0xC00E0009, 0xC00E0020, 0xC00E0045, 0xC00E004B):
            error = error_for_code(code)("q")

            def fail(*_: object, error: Exception = error, **__: object) -> None:
                raise error

            monkeypatch.setattr(site.engine.opening, "open", fail)
            with faults(code):
                site.reader().open("q", access, share)

    @pytest.mark.conformance("MQRR-054")
    @pytest.mark.usefixtures("box")
    def test_clients_need_no_name_of_their_own(self, site: Site) -> None:
        same = uuid4()
        opened = [site.reader().open("q", client_id=client) for client in (NULL_GUID, NULL_GUID, same, same)]
        assert len({each.handle for each in opened}) == len(opened)

    @pytest.mark.conformance("MQRR-055")
    @pytest.mark.usefixtures("box")
    def test_who_the_client_says_it_is_means_nothing(self, site: Site) -> None:
        said = calls.OpenQueue(queue_format("q"), RECEIVE)
        assert (said.is_non_routing_server, said.major, said.minor) == (1, 6, 1)
        for routing, major in product((0, 1, -1), (0, 5, 255)):
            site.reader().open("q", is_non_routing_server=routing, major=major, minor=major, build_number=9)


class TestRemoteReadState:
    """[MS-MQDMPR] 3.1.1.16"""

    @pytest.mark.conformance("DMPR-111")
    def test_who_knows_the_handle(self, site: Site, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
        local = box.open(QueueAccess.RECEIVE)
        assert local.remote_read_state is RemoteReadState.NONE
        seen = []

        def watch(association: Association, interface: Interface, handle: QueueHandle) -> ContextHandle:
            seen.append(handle.opened.remote_read_state)
            return OPEN_HANDLE(association, interface, handle)

        monkeypatch.setattr(Association, "open_handle", watch)
        site.reader().open("q")
        [far] = [each for each in box.state.handles.values() if each is not local]
        assert (seen, far.remote_read_state) == ([RemoteReadState.OPENED], RemoteReadState.READY_FOR_READ)


class TestContextHandles:
    @pytest.mark.conformance("MQRR-023")
    def test_no_method_takes_a_handle_that_is_not_open(self, site: Site, box: Box, a: Remote) -> None:
        box.send(b"1")
        closed = a.reader.open("q")
        closed.close()
        of_another = site.reader().open("q")
        invented = ContextHandle(0, uuid4())
        for handle in (closed.handle, invented, of_another.handle, ContextHandle()):
            for request in (
                calls.CloseQueue(handle),
                calls.CreateCursor(handle),
                calls.CloseCursor(handle, 1),
                calls.PurgeQueue(handle),
                calls.StartReceive(handle),
                calls.CancelReceive(handle, 1),
                calls.EndReceive(handle, 2, 1),
                calls.MoveMessage(handle, 1, 1),
                calls.StartTransactionalReceive(handle),
                calls.SetUserAcknowledgementClass(handle, 1, 0),
                calls.EndTransactionalReceive(handle, 2, 1),
            ):
                with faults(CONTEXT_MISMATCH):
                    a.reader.call(request)
        assert box.bodies() == [b"1"]
        of_another.purge()

    @pytest.mark.conformance("MQRR-136")
    def test_connections_of_a_group_share_them(self, site: Site, box: Box, a: Remote) -> None:
        box.send(b"1")
        second = site.reader(group_id=a.reader.group_id)
        got = a.receive()
        a.reader.vanish()
        Remote(second, a.handle).end(got)
        assert (box.bodies(), site.service.handle_count) == ([], 1)
        second.vanish()
        assert site.service.handle_count == 0

    @pytest.mark.conformance("MQRR-057")
    def test_closing(self, site: Site, a: Remote) -> None:
        response = a.reader.call(calls.CloseQueue(a.handle))
        assert response == calls.QueueClosed(ContextHandle(), 0)
        assert response.encode() == bytes(24)
        with faults(CONTEXT_MISMATCH):
            a.close()
        assert site.service.handle_count == 0

    @pytest.mark.conformance("MQRR-058", "MQRR-025")
    def test_closing_ends_everything(self, site: Site) -> None:
        box = site.create("q")
        a = site.reader().open("q")
        box.send(b"1")
        a.receive()
        waits = [a.wait(), a.wait(PEEKING), a.wait(cursor=a.cursor())]
        a.close()
        for wait in waits:
            with refused(0xC00E0008):
                wait.check()
        assert site.service.pending_count == 0
        alone = site.reader().open("q", RECEIVE, 1)
        got = alone.receive()
        assert (got.body, got.abort_count) == (b"1", 1)

    @pytest.mark.conformance("MQRR-025")
    def test_waits_are_answered_before_the_close(self, site: Site, a: Remote) -> None:
        wait = a.wait()
        a.close()
        assert [action.call for action in site.commits[-1]] == [wait.id, wait.id + 1]


class TestOpenQueueForMove:
    @pytest.mark.conformance("MQRR-103")
    @pytest.mark.usefixtures("box")
    def test_only_to_move_and_with_others(self, site: Site) -> None:
        for access, share in ((MOVE, 1), (RECEIVE, 0), (PEEK, 0), (MOVE | RECEIVE, 0), (0, 0)):
            with faults(INVALID_PARAMETER):
                site.reader().call(calls.OpenQueueForMove(queue_format("q;sub"), access, share))

    @pytest.mark.conformance("MQRR-064", "MQRR-103")
    def test_nothing_is_read_through_it(self, site: Site, box: Box) -> None:
        box.send(b"1")
        target = site.reader().open("q", MOVE)
        for action in (RECEIVING, PEEKING):
            with refused(ACCESS_DENIED):
                target.start(action).check()
        with refused(ACCESS_DENIED):
            target.cursor()
        with refused(0xC0000022):
            target.purge()
        assert box.bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-102", "MQRR-103")
    def test_a_subqueue_of_nothing(self, site: Site) -> None:
        with faults(QUEUE_NOT_FOUND):
            site.reader().open("nobody;sub", MOVE)

    @pytest.mark.conformance("MQRR-104")
    def test_the_context_refers_to_the_handle(self, site: Site, box: Box, a: Remote) -> None:
        box.send(b"1")
        lookup_id = a.peek().lookup_id
        targets = [a.reader.open("q;sub", MOVE) for _ in range(50)]
        contexts = {target.move_context for target in targets}
        assert len(contexts) == 50
        assert min(contexts) > 0
        assert len({context >> 40 for context in contexts}) > 40  # nothing that counts up
        of_another = site.reader().open("q;sub", MOVE)
        targets[0].close()
        for unknown in (0, 1, targets[0].move_context, of_another.move_context):
            with refused(INVALID_HANDLE):
                a.move(lookup_id, unknown)
        a.move(lookup_id, targets[1])
        assert box.subqueue("sub").bodies() == [b"1"]

    @pytest.mark.conformance("MQRR-059")
    def test_it_is_closed_like_any_other(self, site: Site, box: Box, a: Remote) -> None:
        box.send(b"1")
        target = a.reader.open("q;sub", MOVE)
        target.close()
        with faults(CONTEXT_MISMATCH):
            target.close()
        with refused(INVALID_HANDLE):
            a.move(a.peek().lookup_id, target)
        assert site.service.handle_count == 1
        assert not site.service._handles._by_move_context


class TestSettings:
    @pytest.mark.conformance("MQRR-131")
    @pytest.mark.parametrize("seconds", [0, -1])
    def test_readers_always_have_some_time(self, seconds: float) -> None:
        with pytest.raises(ValueError, match="need time to acknowledge"):
            Settings(cleanup_s=seconds)
        assert Settings().cleanup_s == 300
