"""A call of a service's operation, as its dispatcher asks for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tiercel.wcf.envelope import Envelope

Operation = Callable[[Envelope], Any]


@dataclass(frozen=True, slots=True)
class Invoke:
    """Answered when the operation has returned; with asyncio, when what it returned was awaited."""

    operation: Operation
    envelope: Envelope
