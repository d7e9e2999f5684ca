"""Which machines of a world speak HTTP with each other, and through which router."""

from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from tiercel.sim.setup import QUEUES
from tiercel.srmp.redirections import Redirection, Redirections
from tiercel.srmp.settings import RESEND_TABLE_S, Settings


class Routing(Enum):
    NONE = "every request goes to the machine of its URL"
    FORWARD = "requests go to the router, which stores and forwards them"
    INBOUND = "URLs name the router, which redirects each of them to another machine"


@dataclass(frozen=True, slots=True)
class HttpLinks:
    """Messages from a machine to another go over HTTP if the pair of their names is in `pairs`."""

    pairs: frozenset[tuple[str, str]] = frozenset()
    routing: Routing = Routing.NONE
    router: str = ""

    def has(self, source: str, target: str) -> bool:
        return (source, target) in self.pairs

    def is_routed(self, source: str, target: str) -> bool:
        return (
            self.routing is not Routing.NONE
            and self.has(source, target)
            and self.router not in {source, target}
        )

    def url(self, source: str, target: str, queue: str) -> str:
        """The URL by which one machine sends to a queue of another."""
        if self.routing is Routing.INBOUND and self.is_routed(source, target):
            return f"http://{self.router}/msmq/private$/{target}-{queue}"
        return f"http://{target}/msmq/private$/{queue}"

    def redirections(self, name: str, others: list[str]) -> Redirections:
        """The tables of one machine; receipts take the same ways as messages."""
        is_router = name == self.router
        if self.routing is Routing.FORWARD and is_router:
            return Redirections(store_and_forward=True)
        if self.routing is Routing.FORWARD:
            ways = (Redirection(f"http://{each}/*", f"http://{self.router}") for each in others)
            return Redirections(outbound=tuple(ways), outbound_exceptions=(f"http://{name}/*",))
        if self.routing is Routing.INBOUND and is_router:
            pairs = [(each, queue) for each in others for queue in (*QUEUES, "nowhere")]
            return Redirections(
                inbound=tuple(
                    Redirection(
                        f"http://{name}/msmq/private$/{each}-{queue}", f"http://{each}/msmq/private$/{queue}"
                    )
                    for each, queue in pairs
                )
            )
        return Redirections()


def choose(random: Random, names: list[str]) -> HttpLinks:
    """Links between machines that can all be reached."""
    share = random.choice((1.0, 1.0, 0.5))
    pairs = frozenset(
        (source, target)
        for source in names
        for target in names
        if source != target and random.random() < share
    )
    if len(names) < 3 or random.random() < 0.6:
        return HttpLinks(pairs)
    return HttpLinks(pairs, random.choice((Routing.FORWARD, Routing.FORWARD, Routing.INBOUND)), names[1])


def settings(random: Random) -> Settings:
    """The settings that the seed varies; each machine adds its URL."""
    return Settings(
        retry_ms=random.choice((20_000, 20_000, 1_000)),
        cleanup_ms=random.choice((300_000, 300_000, 2_000)),
        answer_timeout_ms=random.choice((60_000, 60_000, 5_000)),
        resend_table_s=random.choice((RESEND_TABLE_S, (1, 1, 1, 5, 30))),
        # Longer than most readers wait: final receipts come before the stream receipt.
        receipt_delay_ms=random.choice((500, 500, 3_000)),
        # Shorter than the client's: it finds the connection closed when it has something to send.
        idle_ms=random.choice((300_000, 300_000, 5_000)),
    )


def at(common: Settings, name: str) -> Settings:
    return replace(common, http_url=f"http://{name.lower()}")
