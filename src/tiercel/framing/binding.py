"""The choices of a binding, which its policy assertions express: [MS-NMFMB] 2.2.3 and 3.2.1."""

from dataclasses import dataclass

from tiercel.framing.addresses import TransferProtocol
from tiercel.framing.records import Encoding, Mode
from tiercel.model.codes import (
    AuthenticationLevel,
    DeliveryGuarantee,
    EncryptionAlgorithm,
    HashAlgorithm,
    PrivacyLevel,
    SenderIdType,
)
from tiercel.model.errors import InvalidParameterError
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.model.path_name import PathName

BODY_TYPE = 0x1011  # VT_VECTOR | VT_UI1, as .NET writes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """How an endpoint sends and receives."""

    exactly_once: bool = True  # no MsmqBestEffort: in transactions
    session: bool = False  # MsmqSession: several envelopes in one message
    volatile: bool = False  # MsmqVolatile: express messages
    authenticated: bool = False  # Authenticated: messages are signed, and the signature was verified
    windows_domain: bool = False  # WindowsDomain: signed messages name the account of their sender
    certificate: bytes = b""  # of the sender, in DER; empty: that of the queue manager
    hash_algorithm: int = HashAlgorithm.SHA_256
    encrypted: bool = False  # EncryptAndSign
    encryption_algorithm: int = EncryptionAlgorithm.RC4
    encoding: Encoding | None = None  # by default binary, with the session's dictionary in a session
    transfer: TransferProtocol = TransferProtocol.NATIVE
    use_active_directory: bool = False
    dead_letters: bool = False  # a message that fails goes to the dead-letter queue of its sender
    dead_letter_queue: PathName | None = None  # this one instead of the system's
    time_to_live_s: int | None = None
    source_journal: bool = False

    def __post_init__(self) -> None:
        if self.volatile and self.exactly_once:
            fix = "pass exactly_once=False, or durable=True"
            raise InvalidParameterError("binding", problem="exactly-once messages must be durable", fix=fix)
        if self.use_active_directory and self.transfer is not TransferProtocol.NATIVE:
            fix = "use the native protocol, or turn use_active_directory off"
            raise InvalidParameterError("binding", problem="the directory has no names for SRMP", fix=fix)
        if self.windows_domain and self.certificate:
            problem = "a message names either an account of the domain or its certificate"
            fix = "omit certificate, or turn windows_domain off"
            raise InvalidParameterError("binding", problem=problem, fix=fix)
        if self.encrypted:
            self._check_encrypted()

    def _check_encrypted(self) -> None:
        if not self.authenticated:
            problem, fix = "encrypted messages are signed, too", "pass authenticated=True"
            raise InvalidParameterError("binding", problem=problem, fix=fix)
        if self.transfer is not TransferProtocol.NATIVE:
            problem, fix = "SRMP cannot encrypt messages", "sign them only, and use srmp_secure"
            raise InvalidParameterError("binding", problem=problem, fix=fix)

    @property
    def needs_directory(self) -> bool:
        """Whether Windows would need Active Directory for the security of the messages (NMFMB trap 13)."""
        return self.authenticated and (self.encrypted or self.windows_domain)

    @property
    def mode(self) -> Mode:
        return Mode.SIMPLEX if self.session else Mode.SINGLETON_SIZED

    @property
    def envelope_encoding(self) -> Encoding:
        """[MC-NMF] 2.2.3.4.1: a session of binary envelopes carries its own strings (NMFMB trap 3)."""
        if self.encoding is None or self.encoding in {Encoding.BINARY, Encoding.BINARY_SESSION}:
            return Encoding.BINARY_SESSION if self.session else Encoding.BINARY
        return self.encoding

    def message(self, body: bytes) -> Message:
        """The MSMQ message of a body: [MS-NMFMB] 3.2.5.1."""
        message = Message(
            body,
            body_type=BODY_TYPE,
            delivery=DeliveryGuarantee.EXPRESS if self.volatile else DeliveryGuarantee.RECOVERABLE,
            sender_id_type=SenderIdType.NONE,
            authentication_level=AuthenticationLevel.NONE,
            negative_journaling=self.dead_letters,
            dead_letter_queue=self.dead_letter_queue,
            time_to_be_received=INFINITE if self.time_to_live_s is None else self.time_to_live_s,
            positive_journaling=self.source_journal,
        )
        if self.authenticated:
            self._protect(message)
        return message

    def _protect(self, message: Message) -> None:
        """Ask the queue manager to sign, and to encrypt for EncryptAndSign only, as .NET (NMFMB trap 11)."""
        is_native = self.transfer is TransferProtocol.NATIVE
        message.authentication_level = AuthenticationLevel.SIG30 if is_native else AuthenticationLevel.XML_SIG
        message.hash_algorithm = self.hash_algorithm
        if self.encrypted:
            is_rc4 = self.encryption_algorithm == EncryptionAlgorithm.RC4
            message.privacy_level = PrivacyLevel.ENHANCED if is_rc4 else PrivacyLevel.ADVANCED
            message.encryption_algorithm = self.encryption_algorithm
        if self.windows_domain:
            message.sender_id_type = SenderIdType.SID
        else:
            message.sender_certificate = self.certificate
