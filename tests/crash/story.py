r"""What people do with a queue manager, told so that it can be stopped at any write.

A scenario is a generator. Where it yields, all that it has done so far was acknowledged, and the text is what
must be seen after a crash there. Between two yields there is one thing that happens wholly or not at all.
What comes before the first yield is the setting: a crash there must leave something whole, no more.
"""

from collections.abc import Callable, Generator

from .world import World

Story = Generator[str, None, None]
Scenario = Callable[[World], Story]

SCENARIOS: dict[str, Scenario] = {}


def scenario(told: Scenario) -> Scenario:
    SCENARIOS[told.__name__] = told
    return told
