"""[MS-MQRR] 1.7: readers prove who they are with NTLM, Kerberos or SPNEGO, and open a queue with that."""

from pathlib import Path

import pytest

from engine.harness import SYSTEM
from rpc.test_kerberos import ACCOUNTS, HOST, REALM, SID, TOOLS, reader, realm
from tiercel.remote_read import calls
from tiercel.remote_read.calls import REMOTE_READ
from tiercel.remote_read.server_stub import ServerStub
from tiercel.rpc.associations import Associations
from tiercel.rpc.authentication import (
    KerberosServer,
    NtlmServer,
    acceptors,
    initiator,
    kerberos_is_available,
    password,
)
from tiercel.rpc.client import Answered, Authentication, Bound, ClientConnection, Event
from tiercel.rpc.security import AuthenticationLevel, AuthenticationType, Providers
from tiercel.rpc.server import ServerConnection, Service
from tiercel.security.descriptor import SecurityDescriptor

from .site import RECEIVE, Site, queue_format

__all__ = ["realm"]  # a fixture of theirs

NTLM, KERBEROS, SPNEGO = AuthenticationType.NTLM, AuthenticationType.KERBEROS, AuthenticationType.SPNEGO
PRIVACY = AuthenticationLevel.PRIVACY
FAR_AWAY = "192.0.2.7"  # who comes from there needs privacy

with_kerberos = (
    pytest.mark.skipif(not kerberos_is_available(), reason="tiercel[kerberos] is not installed"),
    pytest.mark.skipif(None in TOOLS.values(), reason="there is no KDC: Debian has one in krb5-kdc"),
)


def opens_a_queue(providers: Providers, authentication: Authentication) -> None:
    """A queue that is open to this one user, from another computer."""
    site = Site()
    box = site.create("q")
    security = SecurityDescriptor.parse(f"O:{SID}D:(A;;0xf003f;;;{SID})").encode()
    site.run(lambda: site.engine.queues.set_properties(box.state, SYSTEM, security=security))
    server = ServerConnection(
        Service((REMOTE_READ,), Associations(lambda size: bytes([1] * size)), providers), FAR_AWAY
    )
    client, stub = ClientConnection(REMOTE_READ, authentication), ServerStub(site.service)

    def talk() -> list[Event]:
        events: list[Event] = []
        while data := client.data_to_send():
            site.run(lambda data=data: stub.take_all(server, server.receive(data)))  # type: ignore[misc]
            events += client.receive(server.data_to_send())
        return events

    client.bind()
    assert talk() == [Bound()]
    client.call(calls.OpenQueue.OPNUM, calls.OpenQueue(queue_format("q"), RECEIVE).encode())
    [answer] = talk()
    assert isinstance(answer, Answered)
    assert not calls.QueueOpened.decode(answer.stub).handle.is_null
    site.store.close()


@pytest.mark.parametrize("kind", [NTLM, SPNEGO], ids=lambda kind: kind.name)
def test_with_a_password_of_the_accounts(kind: AuthenticationType) -> None:
    credentials = password(rf"{REALM}\reader", "secret")
    context = initiator(credentials, HOST, kind, PRIVACY)
    opens_a_queue(acceptors(NtlmServer(ACCOUNTS, HOST)), Authentication(kind, PRIVACY, context))


@pytest.mark.conformance("MQRR-014")
@pytest.mark.parametrize(
    "kind",
    [NTLM, *(pytest.param(kind, marks=with_kerberos) for kind in (KERBEROS, SPNEGO))],
    ids=lambda kind: kind.name,
)
def test_each_way(request: pytest.FixtureRequest, kind: AuthenticationType) -> None:
    if kind is NTLM:
        test_with_a_password_of_the_accounts(NTLM)
        return
    folder: Path = request.getfixturevalue("realm")
    providers = acceptors(NtlmServer(ACCOUNTS, HOST), KerberosServer(ACCOUNTS, folder / "keytab"))
    context = initiator(reader(folder), HOST, kind, PRIVACY)
    opens_a_queue(providers, Authentication(kind, PRIVACY, context))
