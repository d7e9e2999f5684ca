"""Name lookups in flight: one for each name, and a limited number at once.

Anybody can make us look up names, by asking for acknowledgements on computers that do not exist. Lookups for
acknowledgements therefore have few places and wait behind the others.
"""

from collections.abc import Callable

from tiercel.binary.actions import Resolve
from tiercel.binary.context import Context

AT_ONCE = 16
AT_ONCE_FOR_ACKNOWLEDGEMENTS = 4
WAITING_FOR_ACKNOWLEDGEMENTS = 1000

Answered = Callable[[list[str]], None]


class Lookups:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._asking: dict[str, bool] = {}  # in flight, and whether only for acknowledgements
        self._callers: dict[str, list[Answered]] = {}
        self._waiting: dict[str, None] = {}
        self._waiting_for_acknowledgements: dict[str, None] = {}

    def ask(self, host: str, answered: Answered, *, for_acknowledgements: bool) -> None:
        """Resolve Host Address ([MS-MQQB] 3.1.5.2.1): call `answered` with the addresses, or without any."""
        self._callers.setdefault(host, []).append(answered)
        if host in self._asking:
            return
        if for_acknowledgements and host not in self._waiting:
            self._waiting_for_acknowledgements[host] = None
            if len(self._waiting_for_acknowledgements) > WAITING_FOR_ACKNOWLEDGEMENTS:
                self._give_up_oldest()
        else:
            self._waiting_for_acknowledgements.pop(host, None)
            self._waiting[host] = None
        self._start()

    def _give_up_oldest(self) -> None:
        """Its next hop asks again later, if its messages still exist then."""
        host = next(iter(self._waiting_for_acknowledgements))
        del self._waiting_for_acknowledgements[host]
        for answered in self._callers.pop(host):
            answered([])

    def answered(self, host: str, addresses: list[str]) -> None:
        self._asking.pop(host, None)
        self._start()
        for answered in self._callers.pop(host, []):
            answered(addresses)

    def _start(self) -> None:
        while self._waiting and len(self._asking) < AT_ONCE:
            self._look_up(self._waiting, for_acknowledgements=False)
        while (
            self._waiting_for_acknowledgements
            and len(self._asking) < AT_ONCE
            and sum(self._asking.values()) < AT_ONCE_FOR_ACKNOWLEDGEMENTS
        ):
            self._look_up(self._waiting_for_acknowledgements, for_acknowledgements=True)

    def _look_up(self, waiting: dict[str, None], *, for_acknowledgements: bool) -> None:
        host = next(iter(waiting))
        del waiting[host]
        self._asking[host] = for_acknowledgements
        self._context.do(Resolve(host))
