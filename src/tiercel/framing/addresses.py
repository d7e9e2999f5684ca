r"""net.msmq addresses and the format names of their queues: [MS-NMFMB] 3.1.1.2 and 3.1.7.

    net.msmq://warehouse/private/orders    ->    DIRECT=OS:warehouse\private$\orders

`private` stands for `private$` and localhost for this computer (NMFMB traps 4 and 5), and a path may end in
`;subqueue`. A sender spells an address as it likes, so a receiver compares paths only (trap 18).
"""

from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from tiercel.model.errors import IllegalFormatNameError, IllegalQueuePathNameError
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName
from tiercel.model.path_name import PathKind, PathName

SCHEME: Final = "net.msmq"
_FORM: Final = "write it as net.msmq://computer/private/queue"


class TransferProtocol(Enum):
    """QueueTransferProtocol: [MS-NMFMB] 3.2.1.4."""

    NATIVE = "native"
    SRMP = "srmp"
    SECURE_SRMP = "srmp_secure"


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a net.msmq address."""

    host: str
    queue: str  # with its ;subqueue
    is_private: bool = False
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read an address: [MS-NMFMB] 3.1.1.2."""
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError as problem:
            raise _illegal(text, str(problem)) from None
        if parts.scheme.lower() != SCHEME:
            raise _illegal(text, f"the scheme must be {SCHEME}, not {parts.scheme[:20]!a}")
        if not host:
            raise _illegal(text, "the computer is missing")
        if parts.username is not None or parts.password is not None:
            raise _illegal(text, "user information is not allowed")
        if parts.query or parts.fragment or "?" in text or "#" in text:
            raise _illegal(text, "a query or fragment is not allowed")
        return cls(host, *_queue(text, parts.path), port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{SCHEME}://{host}{port}{self.path}"

    @property
    def path(self) -> str:
        return ("/private/" if self.is_private else "/") + quote(self.queue, safe=";/$!'()*~&=@:")

    @property
    def key(self) -> str:
        """The path without case, subqueue and last slash: the same for all spellings of one queue."""
        queue = self.queue.partition(";")[0].rstrip("/").casefold()
        return f"private/{queue}" if self.is_private else queue

    @property
    def path_name(self) -> PathName:
        computer = "." if self.host.casefold() == "localhost" else self.host
        kind = "private$\\" if self.is_private else ""
        return PathName.on(computer, kind + self.queue)


def _queue(text: str, path: str) -> tuple[str, bool]:
    queue = unquote(path).removeprefix("/").rstrip("/")
    folder, _, inside = queue.partition("/")
    if folder.casefold() == "private$":
        raise _illegal(text, "private$ is not allowed in an address", fix="write private instead of private$")
    is_private = folder.casefold() == "private"
    name = inside if is_private else queue
    if not name or name.startswith(";"):
        raise _illegal(text, "the queue is missing")
    return name, is_private


def _illegal(text: str, problem: str, *, fix: str = _FORM) -> IllegalFormatNameError:
    return IllegalFormatNameError(f"address {text[:120]!a}", problem=problem, fix=fix)


def direct_format_name(address: Address) -> DirectFormatName:
    """[MS-NMFMB] 3.1.7.1; every IP literal is a TCP name (NMFMB trap 9)."""
    if address.port is not None:  # NMFMB trap 8
        problem = "a port is not allowed here: MSMQ has its own"
        raise _illegal(str(address), problem, fix="leave the port out, or use a transfer protocol of SRMP")
    protocol = DirectProtocol.TCP if _is_ip(address.host) else DirectProtocol.OS
    return DirectFormatName(protocol, address.path_name)


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def directory_path(address: Address, computer_name: str) -> PathName:
    """The Pathname by which the directory knows a queue: [MS-NMFMB] 3.1.7.2, with NMFMB trap 7."""
    path = address.path_name
    if path.kind is PathKind.PRIVATE:
        problem = "a private queue is not in the directory"
        raise _illegal(str(address), problem, fix="use a public queue, or turn use_active_directory off")
    return path.with_computer(computer_name) if path.computer == "." else path


def http_format_name(address: Address, *, secure: bool) -> DirectFormatName:
    """[MS-NMFMB] 3.1.7.3: the port stands here, behind the colon that the text forgets (NMFMB trap 8)."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    port = "" if address.port is None else f":{address.port}"
    kind = "private$/" if address.is_private else ""
    scheme = "https" if secure else "http"
    return DirectFormatName.from_wire(f"{scheme}://{host}{port}/msmq/{kind}{address.queue}")


def address_of(name: FormatName) -> Address:
    """The address of a direct format name; other names have none."""
    if not isinstance(name, DirectFormatName) or name.path.kind is PathKind.SYSTEM or name.path.journal:
        raise IllegalFormatNameError(
            str(name), problem="the queue has no net.msmq address", fix="use DIRECT="
        )
    path = name.path
    host = "localhost" if name.host == "." else name.host
    subqueue = "" if path.subqueue is None else f";{path.subqueue}"
    port = name.port if name.is_http and name.port not in {80, 443} else None
    return Address(host, path.queue + subqueue, path.kind is PathKind.PRIVATE, port)


def is_same_queue(via: str, address: Address) -> bool:
    """Whether a Via means the queue of an address: by path alone (NMFMB trap 18)."""
    try:
        return Address.parse(via).key == address.key
    except (IllegalFormatNameError, IllegalQueuePathNameError):
        return False
