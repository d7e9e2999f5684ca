"""The trust store of a daemon: edited while it runs, and refused if others may change it."""

import asyncio
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from message_security.encrypting import known
from message_security.signing import certificate, signed, trust
from tiercel.engine.engine import Engine
from tiercel.message_security.encryption import NO_KEYS
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.trust import Trust
from tiercel.message_security.verdict import NOTHING
from tiercel.model.codes import HashAlgorithm, MessageClass, PrivacyLevel
from tiercel.model.errors import PublicKeyNotFoundError
from tiercel.model.format_name import DirectFormatName, PrivateFormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.sid import SecurityIdentifier
from tiercel.server import service, trust_file
from tiercel.server.config import SecurityOptions
from tiercel.server.daemon import Daemon
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

from .scripted import configured

ADVANCED = PrivacyLevel.ADVANCED
ALICE = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")


def packet(**properties: Any) -> UserMessage:
    name = DirectFormatName.from_wire(r"OS:here\private$\q")
    message = Message(b"body", id=MessageId(UUID(int=1), 1), destination_queue=name, **properties)
    message.sender_id = ALICE.encode()
    message.sent_time = int(time.time())
    return signed(message, "alice")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "trust"
    trust_file.change(found, lambda _: trust(alice=ALICE), create=True)
    return found


def test_an_edited_file_counts_with_the_next_message(path: Path) -> None:
    verifier = trust_file.verifier(SecurityOptions(trust=str(path)))
    assert verifier.verify(packet(), 1).sender == ALICE.encode()
    trust_file.change(path, lambda present: present.without("alice"))
    assert verifier.verify(packet(), 1) is NOTHING


@pytest.mark.conformance("MQQB-215")
def test_the_keys_of_a_receiver_are_not_read_for_every_message(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read serves a session; a file that cannot be read is an encryption error."""
    there = UUID(int=7)
    name = PrivateFormatName(there, 1)
    trust_file.change(path, lambda _: known(there))
    reads: list[str] = []
    parse = Trust.parse

    def spy(text: str) -> Trust:
        reads.append(text)
        return parse(text)

    monkeypatch.setattr(Trust, "parse", staticmethod(spy))
    options = SecurityOptions(trust=str(path))
    encryption = trust_file.encryption(options, trust_file.current(options), NO_KEYS)
    secret = UserMessage(encode_message(Message(b"body", destination_queue=name, privacy_level=ADVANCED)))
    for _ in range(20):
        assert encryption.seal(secret, name, 1.0).body != b"body"
    assert len(reads) == 1
    path.unlink()
    with pytest.raises(PublicKeyNotFoundError):
        encryption.seal(secret, name, 1.0)


def test_a_file_that_others_may_change_is_not_used(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is known, and no certificate passes for one of a queue manager that trusts nobody yet."""
    path.chmod(0o620)
    verifier = trust_file.verifier(SecurityOptions(trust=str(path)))
    with pytest.raises(MessageRefusedError, match="not in the trust store"):
        verifier.verify(packet(), 1)
    (line,) = [str(vars(each)) for each in caplog.records if each.message == "trust_unusable"]
    assert "chmod 600" in line


@pytest.mark.parametrize("damage", ["mode", "garbage", "folder"])
def test_the_last_content_counts_while_the_file_cannot_be_read(
    path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    verifier = trust_file.verifier(SecurityOptions(trust=str(path)))
    verifier.verify(packet(), 1)
    text = path.read_text("utf-8")
    if damage == "mode":
        path.chmod(0o666)
    elif damage == "garbage":
        path.write_text(f"{text}mallory", "utf-8")
    else:
        path.unlink()
        path.mkdir()
    assert verifier.verify(packet(), 2).sender == ALICE.encode()
    assert [each.message for each in caplog.records] == ["trust_unusable"]


def test_nobody_is_known_while_there_is_no_file(path: Path) -> None:
    """A certificate that is unknown then does not pass for one of a queue manager that trusts nobody yet."""
    verifier = trust_file.verifier(SecurityOptions(trust=str(path)))
    verifier.verify(packet(), 1)
    path.unlink()
    for checked in (verifier, trust_file.verifier(SecurityOptions(trust=str(path)))):
        with pytest.raises(MessageRefusedError, match="not in the trust store"):
            checked.verify(packet(), 2)


@pytest.mark.parametrize("damage", ["mode", "garbage"])
def test_a_daemon_does_not_start_with_a_trust_store_that_it_cannot_use(
    tmp_path: Path,
    path: Path,
    damage: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def start(_daemon: Daemon, _sockets: object) -> None:
        raise OSError("it came as far as its ports")

    monkeypatch.setattr(Daemon, "start", start)
    if damage == "mode":
        path.chmod(0o644)
    else:
        path.write_text("mallory", "utf-8")
    config = configured(tmp_path, security={"trust": str(path)})
    assert service.run(config, lambda: config) == service.WRONG_CONFIGURATION
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"tiercel serve: cannot use [security] trust: {path}: ")


def test_without_a_file_nobody_is_known() -> None:
    assert trust_file.verifier(SecurityOptions()).verify(packet(), 1) is NOTHING


@pytest.mark.parametrize(("choice", "refuses"), [("auto", False), ("accept", False), ("refuse", True)])
def test_unknown_certificates(choice: str, refuses: bool) -> None:
    verifier = trust_file.verifier(SecurityOptions(unknown_certificates=choice))
    if refuses:
        with pytest.raises(MessageRefusedError, match="not in the trust store"):
            verifier.verify(packet(), 1)
    else:
        assert verifier.verify(packet(), 1) is NOTHING


@pytest.mark.parametrize("legacy", [False, True])
def test_old_algorithms(path: Path, legacy: bool) -> None:
    verifier = trust_file.verifier(SecurityOptions(trust=str(path), legacy=legacy))
    old = packet(hash_algorithm=HashAlgorithm.MD5)
    if legacy:
        assert verifier.verify(old, 1).is_authenticated
    else:
        with pytest.raises(MessageRefusedError, match="hash algorithm 0x8003"):
            verifier.verify(old, 1)


def test_a_daemon_takes_what_its_trust_store_knows(tmp_path: Path, path: Path) -> None:
    """A queue that demands authentication, before and after the sender is removed."""

    async def main() -> list[MessageClass | None]:
        async with Daemon(configured(tmp_path, security={"trust": str(path)})) as daemon:
            queue = PathName.parse(r".\private$\q")
            await daemon.call(
                lambda engine: engine.queues.create(queue, daemon.driver.owner, authentication=True)
            )

            def arrive(engine: Engine) -> MessageClass | None:
                state = next(each for each in engine.queues.all() if "private$\\q" in str(each))
                return engine.delivery.arrive(packet(), state)

            first = await daemon.call(arrive)
            trust_file.change(path, lambda present: present.without("alice"))
            return [first, await daemon.call(arrive)]

    assert asyncio.run(main()) == [None, MessageClass.NACK_BAD_SIGNATURE]


def test_the_file_has_the_certificate_and_its_sid(path: Path) -> None:
    (entry,) = trust_file.read(path)
    assert (entry.name, entry.sid, entry.certificate.der) == ("alice", ALICE, certificate("alice"))
