"""An endpoint: a queue manager, an address and a binding. Clients send to it, services receive from it."""

import logging
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID, uuid4
from xml.etree.ElementTree import Element

from tiercel.framing.addresses import Address, TransferProtocol
from tiercel.framing.binding import Binding
from tiercel.framing.initiator import Initiator
from tiercel.framing.records import Encoding
from tiercel.model.codes import EncryptionAlgorithm, HashAlgorithm
from tiercel.model.errors import (
    InvalidParameterError,
    TransactionUsageError,
    UnsupportedOperationError,
)
from tiercel.nbfx import Event
from tiercel.server import signing_key
from tiercel.wcf.data_writer import write_wrapper
from tiercel.wcf.envelope import Headers, write_envelope
from tiercel.wcf.running import Directory, Runner
from tiercel.wcf.soap import Addressing, Soap
from tiercel.wcf.wsdl import read_wsdl

DEFAULT_NAMESPACE = "http://tempuri.org/"
_ENCODINGS = {
    ("binary", Soap.V12): Encoding.BINARY,
    ("text", Soap.V12): Encoding.SOAP12_UTF8,
    ("text", Soap.V11): Encoding.SOAP11_UTF8,
    ("text-utf-16", Soap.V12): Encoding.SOAP12_UTF16,
    ("text-utf-16", Soap.V11): Encoding.SOAP11_UTF16,
    ("mtom", Soap.V12): Encoding.MTOM,
}
_HASHES = {
    "md5": HashAlgorithm.MD5,
    "sha1": HashAlgorithm.SHA1,
    "sha256": HashAlgorithm.SHA_256,
    "sha512": HashAlgorithm.SHA_512,
}
_PROTECTIONS = {"sign": False, "encrypt_and_sign": True}
_CIPHERS = {"rc4": EncryptionAlgorithm.RC4, "aes": EncryptionAlgorithm.AES256}
logger = logging.getLogger(__name__)
T = TypeVar("T")
_EMBED = "open a queue manager of your own with tiercel.open, or pass exactly_once=False"
Body = Mapping[str, Any] | Element | None


class EndpointBase:
    """The settings that threads and asyncio share, named as NetMsmqBinding names them."""

    def __init__(
        self,
        manager: Any,
        address: str,
        *,
        exactly_once: bool = True,
        durable: bool = True,
        session: bool = False,
        authenticated: bool = False,
        windows_domain: bool = False,
        certificate: str | Path = "",
        hash_algorithm: str = "sha256",
        protection: str = "sign",
        encryption_algorithm: str = "rc4",
        soap: str = "1.2",
        addressing: str = "1.0",
        encoding: str = "",
        transfer: str = "native",
        use_active_directory: bool = False,
        dead_letter_queue: str = "",
        time_to_live_s: int | None = None,
        use_source_journal: bool = False,
        directory: Directory | None = None,
        new_id: Callable[[], UUID] = uuid4,
    ) -> None:
        """With `authenticated` clients sign their messages, and a service takes only messages whose signature
        was verified. `certificate` is a PEM file with the certificate and its private key, by default those
        of the queue manager; with `windows_domain` messages name the account of the sender. `hash_algorithm`
        is md5, sha1, sha256 or sha512, `protection` sign or encrypt_and_sign, `encryption_algorithm` rc4 or
        aes.

        `encoding` is binary, text, text-utf-16 or mtom: by default binary, for SOAP 1.1 text.

        `dead_letter_queue` is system (the default), none, or the address of a queue for messages that cannot
        be delivered, that expire after `time_to_live_s`, or that a service rejects. `transfer` is native,
        srmp or srmp_secure. With `use_active_directory`, `directory` finds public queues: it takes a path
        name and gives the queue's GUID.
        """
        self.manager = manager
        signer = signing_key.read(Path(certificate)) if certificate else None
        self.runner = Runner(manager, directory, signer)
        self.address = Address.parse(address)
        self.soap = _choice("soap", Soap, soap)
        self.addressing = _choice("addressing", Addressing, addressing)
        self.binding = Binding(
            exactly_once=exactly_once,
            volatile=not durable,
            session=session,
            authenticated=authenticated,
            windows_domain=windows_domain,
            certificate=b"" if signer is None else signer.certificate.der,
            hash_algorithm=_named("hash_algorithm", _HASHES, hash_algorithm),
            encrypted=_named("protection", _PROTECTIONS, protection),
            encryption_algorithm=_named("encryption_algorithm", _CIPHERS, encryption_algorithm),
            encoding=self._encoding(encoding),
            transfer=_choice("transfer", TransferProtocol, transfer),
            use_active_directory=use_active_directory,
            time_to_live_s=time_to_live_s,
            source_journal=use_source_journal,
            **self._dead_letters(dead_letter_queue),
        )
        self.new_id = new_id

    @classmethod
    def from_wsdl(cls, manager: Any, text: str | bytes, *, port: str = "", **settings: Any) -> Self:
        """The endpoint that a WSDL describes; `port` chooses one of several, `settings` override the
        document.
        """
        ports = [each for each in read_wsdl(text) if port in {"", each.name}]
        if len(ports) != 1:
            names = ", ".join(each.name for each in read_wsdl(text)) or "none"
            problem, fix = f"it must describe one port of MSMQ, and has {names}", "pass port="
            raise InvalidParameterError("WSDL", problem=problem, fix=fix)
        return cls(manager, **{**ports[0].settings(), **settings})

    def _encoding(self, name: str) -> Encoding:
        name = name or ("binary" if self.soap is Soap.V12 else "text")
        found = _ENCODINGS.get((name, self.soap))
        if found is None:
            known = ", ".join(sorted(each for each, soap in _ENCODINGS if soap is self.soap))
            limit = f"{known} with SOAP {self.soap.value}"
            raise InvalidParameterError("encoding", present=name, limit=limit, fix="choose one of them")
        return found

    def _dead_letters(self, name: str) -> dict[str, Any]:
        if not name:  # a remote queue manager has no dead letters of ours
            name = "system" if self.runner.has_transactions else "none"
        if name in {"system", "none"}:
            return {"dead_letters": name == "system"}
        return {"dead_letters": True, "dead_letter_queue": Address.parse(name).path_name}

    def __repr__(self) -> str:
        return f"<Endpoint {self.address}>"

    def initiator(self, *, session: bool) -> Initiator:
        binding = self.binding
        if binding.authenticated:
            self._check_can_sign()
        if binding.exactly_once and not self.runner.has_transactions:
            problem = "a remote connection has no transactions to send in"
            raise TransactionUsageError(str(self.address), problem=problem, fix=_EMBED)
        if session and not binding.session:
            binding = replace(binding, session=True)
        return Initiator(self.address, binding, computer_name=platform.node())

    def _check_can_sign(self) -> None:
        if not self.runner.has_transactions:
            problem = "a remote connection cannot sign messages"
            fix = "open a queue manager of your own with tiercel.open"
            raise UnsupportedOperationError(str(self.address), problem=problem, fix=fix)
        if self.binding.needs_directory and not self.binding.use_active_directory:
            logger.warning(
                "%s: without a directory, encryption needs the key of the receiver in the trust store, and"
                " Windows refuses messages that name an account",
                self.address,
            )

    def envelope(
        self,
        action: str,
        body: Body = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        wrapper: str = "",
        message_id: UUID | None = None,
        headers: tuple[Element, ...] = (),
    ) -> Iterator[Event]:
        """The events of an envelope to this endpoint."""
        name = wrapper or action.rstrip("/").rpartition("/")[2]
        sent = Headers(
            action=action, to=str(self.address), message_id=message_id or self.new_id(), others=headers
        )
        return write_envelope(sent, write_wrapper(name, namespace, body), self.soap, self.addressing)


def _named(name: str, known: Mapping[str, T], value: str) -> T:
    if value not in known:
        limit = ", ".join(known)
        raise InvalidParameterError(name, present=value, limit=limit, fix="choose one of them")
    return known[value]


def _choice(name: str, kind: Any, value: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        limit = ", ".join(str(each.value) for each in kind)
        raise InvalidParameterError(name, present=value, limit=limit, fix="choose one of them") from None


class Endpoint(EndpointBase):
    """Where WCF messages go to or come from: `Endpoint(qm, "net.msmq://warehouse/private/orders")`."""

    def client(self, *, transaction: Any = None) -> "Client":
        """A channel to send through: one MSMQ message for each call, or for a session one for all of them."""
        return Client(self, self.initiator(session=False), transaction)


class Client:
    """A channel of one endpoint."""

    def __init__(self, endpoint: Endpoint, initiator: Initiator, transaction: Any = None) -> None:
        self._endpoint = endpoint
        self._initiator = initiator
        self._transaction = transaction
        self._run = endpoint.runner.run

    def __enter__(self) -> Self:
        self._run(self._initiator.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._run(self._initiator.close())
        else:
            self._run(self._initiator.abandon())

    def send(self, action: str, body: Body = None, *, transaction: Any = None, **options: Any) -> UUID:
        """Send a one-way message; on return it is in the queue, or in a session in the session's message.

        `body` is a mapping of the operation's parameters, or an element that stands for the whole wrapper.
        Options: `namespace` of the contract, `wrapper` (by default the last part of the action),
        `message_id`, `headers`.
        """
        message_id = options.pop("message_id", None) or self._endpoint.new_id()
        envelope = self._endpoint.envelope(action, body, message_id=message_id, **options)
        self._run(self._initiator.send(envelope, transaction or self._transaction))
        return message_id

    @contextmanager
    def session(self, *, transaction: Any = None) -> "Iterator[Client]":
        """Several envelopes in one MSMQ message, which is sent when the block ends and not when it raises."""
        initiator = self._endpoint.initiator(session=True)
        with Client(self._endpoint, initiator, transaction or self._transaction) as client:
            yield client
