"""The names of this computer, which the engine gets from outside."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    computer_name: str
    qualified_computer_name: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def names(self) -> Iterable[str]:
        return filter(None, (self.computer_name, self.qualified_computer_name, *self.addresses))
