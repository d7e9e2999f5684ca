"""The choices of a binding, which its policy assertions express: [MS-NMFMB] 2.2.3 and 3.2.1."""

from dataclasses import dataclass

from tiercel.framing.addresses import TransferProtocol
from tiercel.framing.records import Encoding, Mode
from tiercel.model.codes import AuthenticationLevel, DeliveryGuarantee, SenderIdType
from tiercel.model.errors import InvalidParameterError
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.model.path_name import PathName

BODY_TYPE = 0x1011  # VT_VECTOR | VT_UI1, as .NET writes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """How an endpoint sends and receives. Authenticated messages can be demanded, but not sent yet."""

    exactly_once: bool = True  # no MsmqBestEffort: in transactions
    session: bool = False  # MsmqSession: several envelopes in one message
    volatile: bool = False  # MsmqVolatile: express messages
    authenticated: bool = False  # Authenticated: messages whose signature was verified
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
        return Message(
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
