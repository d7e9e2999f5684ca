"""`python tests/soak/run.py N KILLS CUTS [SEED]`: two daemons over loopback, then over two namespaces."""

import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from soak.links import Link, LoopbackLink, NamespaceLink
from soak.soak import Plan, Result, Soak


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 -- a script


def soak(plan: Plan, name: str, link: Link) -> bool:
    say(f"{name}: {plan.messages} messages, {plan.kills} kills, {plan.cuts} cuts, seed {plan.seed}")
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        result = asyncio.run(Soak(plan, link, folder, lambda text: say(f"  {text}")).run())
    except AssertionError as problem:
        say(f"  FAILED: {problem}")
        say(f"  the stores and logs are in {folder}; once more: {again(plan)}")
        return False
    shutil.rmtree(folder)
    say(f"  {summary(result)}")
    return True


def again(plan: Plan) -> str:
    return f"make soak N={plan.messages} KILLS={plan.kills} CUTS={plan.cuts} SEED={plan.seed}"


def summary(result: Result) -> str:
    kills = ", ".join(f"the {name} {count} times" for name, count in sorted(result.kills.items()))
    return (
        f"{result.messages} messages in {result.seconds:.0f} s: none lost, none doubled, order kept; "
        f"killed: {kills}; {result.cuts.total()} cuts"
    )


def main() -> None:
    messages, kills, cuts = map(int, sys.argv[1:4])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else int(time.time())
    plan = Plan(messages, kills, cuts, seed)
    is_fine = soak(plan, "loopback", LoopbackLink())
    if reason := NamespaceLink.missing():
        say(f"namespaces: left out, for {reason}")
    else:
        is_fine &= soak(plan, "namespaces", NamespaceLink())
    sys.exit(not is_fine)


if __name__ == "__main__":
    main()
