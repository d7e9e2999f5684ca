"""Where a message that arrived goes: [MC-MQSRM] 3.1.5.1.3."""

from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.format_name import DirectFormatName
from tiercel.srmp.context import Context
from tiercel.srmp.queue_urls import ascii_host, read_url
from tiercel.srmp.redirections import Redirections

_ORDER_QUEUE = "private$\\order_queue$"
_KEPT = 256


class Destination(NamedTuple):
    """A local queue, or, if `is_foreign`, a queue elsewhere to which the message is passed on."""

    name: DirectFormatName
    queue: QueueState | None = None
    is_foreign: bool = False
    problem: str = ""

    @property
    def is_order_queue(self) -> bool:
        """Whether it takes stream receipts, and nothing else (SRMP-143)."""
        return self.name.path.local_name.casefold() == _ORDER_QUEUE


class Destinations:
    def __init__(self, context: Context, engine: Engine) -> None:
        self._context = context
        self._engine = engine
        self._found: dict[str, Destination] = {}  # with a queue, by URL
        self._found_with: tuple[object, object] = None, None  # the redirections and settings of that time

    def find(self, to: str) -> Destination:
        """The destination of a message to a URL that was found valid."""
        redirections, settings = self._context.redirections.current, self._context.settings
        if self._found_with[0] is not redirections or self._found_with[1] is not settings:
            self._found, self._found_with = {}, (redirections, settings)
        found = self._found.get(to)
        if found is None or found.queue is None or found.queue.is_deleted:
            found = self._look_up(to, redirections)
            if found.queue is not None:
                if len(self._found) >= _KEPT:  # one queue has many spellings
                    self._found.clear()
                self._found[to] = found
        return found

    def _look_up(self, to: str, redirections: Redirections) -> Destination:
        name = read_url(to)
        is_local = self.is_local(name)
        if not is_local and redirections.store_and_forward:
            return Destination(name, is_foreign=True)
        redirected = redirections.inbound_of(to)
        if redirected != to:
            name = read_url(redirected)
            is_local = self.is_local(name)
            if not is_local:
                return Destination(name, is_foreign=True)
        if not is_local:
            problem = f"{name.host[:80]!a} is not a name of this computer; add it to the aliases"
            return Destination(name, problem=problem)
        return self._local(name)

    def _local(self, name: DirectFormatName) -> Destination:
        found = Destination(name, self._engine.queues.find_local(name))
        if found.queue is None and not found.is_order_queue:
            return found._replace(problem=f"{name.path.local_name[:80]!a}: no such queue")
        return found

    def is_local(self, name: DirectFormatName) -> bool:
        """Our names, configured aliases and addresses; everything else is foreign (SRMP-175).

        The dot after a name says that it is complete: RFC 3986 3.2.2.
        """
        host = name.host.casefold().removesuffix(".")
        if ascii_host(host) in {ascii_host(alias.casefold()) for alias in self._context.settings.aliases}:
            return True
        return self._engine.queues.is_own_name(host) or _is_loopback(host)


@lru_cache(256)  # senders repeat the names of their hosts
def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
