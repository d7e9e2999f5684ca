r"""Queue names as people write them. Every face (Python, HTTP, command line, Spark) reads them here.

    orders                        .\private$\orders, a private queue of this computer
    private$\orders               the same
    orders;retry                  its subqueue
    orders;journal                its journal
    ;journal                      the journal of the computer; also ;deadletter and ;deadxact
    host\private$\orders          a path name (`tiercel.model.path_name`)
    DIRECT=OS:host\private$\q     a format name (`tiercel.model.format_name`)
    FormatName:DIRECT=OS:...      the same, as System.Messaging writes it

A name with a backslash is a path name, and one with "=" before any backslash is a format name. A public queue
of this computer is therefore `.\orders`, and a private queue called `a=b` is `private$\a=b`.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address
from typing import Final

from tiercel.model.errors import IllegalFormatNameError, IllegalQueuePathNameError
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName, MultipleElementFormatName
from tiercel.model.path_name import PathKind, PathName, shown

_PRIVATE: Final = PathKind.PRIVATE.value
_SYSTEM: Final = PathKind.SYSTEM.value
_DOTNET_PREFIX: Final = "formatname:"
_DOTTED_NUMBERS: Final = re.compile(r"[0-9]+(\.[0-9]+)+")
_WRONG_SLASHES: Final = re.compile(r"^\./|private\$/|://", re.IGNORECASE)


@lru_cache(maxsize=256)  # users repeat the same few names; invalid names are not kept
def parse_queue_name(text: str) -> FormatName:
    """The queue that `text` names. Raises an `MqError` when no queue can have that name."""
    name = parse_given_queue_name(text)
    for each in name.elements if isinstance(name, MultipleElementFormatName) else (name,):
        _check_address(each)
    return name


def parse_given_queue_name(text: str) -> FormatName:
    """The same for a name that may come from a message: its address may be impossible."""
    full = expand_queue_name(text)
    if _is_format_name(full):
        return FormatName.parse(full)
    return DirectFormatName(DirectProtocol.OS, PathName.parse(full))


def _check_address(name: FormatName) -> None:
    """Refuses what is only meant to be an IP address; a message to it would wait until it expires."""
    if not isinstance(name, DirectFormatName) or not _DOTTED_NUMBERS.fullmatch(name.host):
        return
    try:
        IPv4Address(name.host)
    except ValueError:
        raise IllegalFormatNameError(
            f"format name {name}",
            problem="it does not have a valid IP address",
            present=name.host,
            limit="four numbers from 0 to 255",
            fix="correct the address, or use the name of the computer",
        ) from None


def parse_new_queue_name(text: str) -> PathName:
    """The path name of a queue that is about to be created."""
    full = expand_queue_name(text)
    if not _is_format_name(full):
        return PathName.parse(full)
    name = FormatName.parse(full)
    if not isinstance(name, DirectFormatName):
        raise IllegalQueuePathNameError(
            f"queue name {shown(text)}",
            problem="it is not the path name of a queue",
            fix="use orders or .\\private$\\orders",
        )
    return name.path


def expand_queue_name(text: str) -> str:
    r"""The path name or format name that `text` is short for; `orders` becomes `.\private$\orders`."""
    if text[: len(_DOTNET_PREFIX)].casefold() == _DOTNET_PREFIX:
        name = text[len(_DOTNET_PREFIX) :]
        FormatName.parse(name)  # a path name does not belong after the prefix
        return name
    if not text.strip():
        raise IllegalQueuePathNameError(
            "queue name", problem="it is empty", fix="use orders, .\\private$\\orders or DIRECT=OS:..."
        )
    if _is_format_name(text):
        return text
    if text.startswith(";"):
        return f".\\{_SYSTEM}{text[1:].upper()}"
    head, backslash, _ = text.partition("\\")
    if not backslash:
        return _expand_short_name(text)
    return f".\\{text}" if f"{head}\\".casefold() == _PRIVATE else text


def _expand_short_name(text: str) -> str:
    if _WRONG_SLASHES.search(text):  # a queue may have such a name, but it is more likely a mistake
        raise IllegalQueuePathNameError(
            f"queue name {shown(text)}",
            problem="it looks like a path name or a URL with the character '/'",
            fix="separate the parts of a path name with backslashes, as in .\\private$\\orders",
        )
    return f".\\{text}" if text.casefold().startswith(_SYSTEM) else f".\\{_PRIVATE}{text}"


def short_queue_name(path: str) -> str:
    r"""A queue of this computer as people type it: without the computer, and without `private$\`."""
    local = path.partition("\\")[2]
    return local[len(_PRIVATE) :] if local.casefold().startswith(_PRIVATE) else f".\\{local}"


def _is_format_name(text: str) -> bool:
    return "=" in text.partition("\\")[0]
