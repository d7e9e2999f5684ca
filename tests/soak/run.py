"""`python tests/soak/run.py TRANSPORT N KILLS CUTS [SEED]`: two daemons, killed and cut off.

TRANSPORT is binary, tls, http or https. First over loopback, then over two network namespaces.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from soak.links import Link, LoopbackLink, NamespaceLink
from soak.soak import Plan, Result, Soak
from soak.transports import Transport


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 -- a script


def soak(plan: Plan, transport: Transport, name: str, link: Link) -> bool:
    figures = f"{plan.messages} messages, {plan.kills} kills, {plan.cuts} cuts, seed {plan.seed}"
    say(f"{transport.value}, {name}: {figures}")
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        result = asyncio.run(Soak(plan, transport, link, folder, lambda text: say(f"  {text}")).run())
    except AssertionError as problem:
        say(f"  FAILED: {problem}")
        say(f"  the stores and logs are in {folder}; once more: {again(plan, transport)}")
        return False
    shutil.rmtree(folder)
    say(f"  {summary(result)}")
    return True


def again(plan: Plan, transport: Transport) -> str:
    figures = f"N={plan.messages} KILLS={plan.kills} CUTS={plan.cuts} SEED={plan.seed}"
    return f"make soak TRANSPORT={transport.value} {figures}"


def summary(result: Result) -> str:
    kills = ", ".join(f"the {name} {count} times" for name, count in sorted(result.kills.items()))
    return (
        f"{result.messages} messages in {result.seconds:.0f} s: none lost, none doubled, order kept; "
        f"killed: {kills}; {result.cuts.total()} cuts"
    )


def main() -> None:
    transport = Transport(sys.argv[1])
    messages, kills, cuts = map(int, sys.argv[2:5])
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else int(time.time())
    plan = Plan(messages, kills, cuts, seed)
    is_fine = soak(plan, transport, "loopback", LoopbackLink(transport.port))
    if reason := NamespaceLink.missing():
        say(f"namespaces: left out, for {reason}")
    else:
        is_fine &= soak(plan, transport, "namespaces", NamespaceLink())
    sys.exit(not is_fine)


if __name__ == "__main__":
    main()
