"""Every error that Tiercel raises: `except tiercel.errors.QueueNotFoundError`.

`tiercel.model.errors` defines them. They can be imported from `tiercel` too.
"""

from tiercel.model import errors as _errors
from tiercel.model.errors import *  # noqa: F403  # every error is part of the API, by its own name

__all__ = [name for name in vars(_errors) if name.endswith("Error")]


def __dir__() -> list[str]:
    return sorted(__all__)
