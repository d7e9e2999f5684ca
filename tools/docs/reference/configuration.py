"""Every option of the configuration: values from the code, words from the example in docs/operating.md."""

import re
import types
from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

from tiercel.binary.settings import Peer
from tiercel.server import config
from tiercel.server.config import Config

from .tables import DOCS, code, table

HEAD = """# Configuration

A file in TOML for `tiercel serve --config FILE`; [Running the daemon](../operating.md#configuration) shows
one with everything in it. Options that are left out have their defaults, unknown ones are refused.

"""
_KINDS = {int: "number", str: "text", bool: "true or false", UUID: "GUID"}
_FREE = {
    "hosts": "Computers that the DNS does not know, or knows otherwise:\n"
    '`name = "address"` or `"address:port"`',
    "machines": 'Where queue managers live that are known by their GUID only: `"guid" = ["name", ...]`',
}


def page() -> str:
    words = _words()
    parts = [HEAD]
    for section in fields(Config):
        name, value = section.name, getattr(Config(), section.name)
        is_list = isinstance(value, tuple)  # a section that may be repeated
        if is_list:
            value = Peer()
        parts.append(f"## [[{name}]]\n\n" if is_list else f"## [{name}]\n\n")
        if name in _FREE:
            parts.append(f"{_FREE[name]}.\n\n")
            continue
        rows = [
            (code(each), *_value(name, each, hint, getattr(value, each)), words[name, each])
            for each, hint in get_type_hints(type(value)).items()
            if (name, each) in words
        ]
        parts.append(table(("option", "kind", "default", "allowed", "meaning"), rows) + "\n")
    return "".join(parts)


def _value(section: str, name: str, hint: Any, default: Any) -> tuple[str, str, str]:
    if isinstance(hint, types.UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    is_list = get_origin(hint) is tuple
    if is_list:
        hint = get_args(hint)[0]
    kind = f"list of {_KINDS[hint]}s" if is_list else _KINDS[hint]
    return kind, _written(default), _allowed(f"{section}.{name}")


def _written(value: Any) -> str:
    match value:
        case None | "":
            return ""
        case bool():
            return code(str(value).lower())
        case tuple():
            return code([*value])
    return code(value)


def _allowed(key: str) -> str:
    if key in config.RANGES:
        lowest, highest = config.RANGES[key]
        return f"{lowest:,} to {highest:,}"
    return " ".join(map(code, config.CHOICES.get(key, ())))


def _words() -> dict[tuple[str, str], str]:
    """The comments of the example, which the tests hold to be whole and true."""
    found: dict[tuple[str, str], str] = {}
    section, last = "", None
    [example] = re.findall(
        r"```toml\n(\[node\].*?)```", (DOCS / "operating.md").read_text("utf-8"), re.DOTALL
    )
    for line in example.splitlines():
        if match := re.match(r"(?:# )?\[+(\w+)\]", line):
            section, last = match[1], None
        elif match := re.match(r"(?:# )?(\w+) = .*?(?:  # (.*))?$", line):
            last = section, match[1]
            found[last] = match[2] or ""
        elif last and (match := re.match(r" +# (.*)", line)):
            found[last] += f" {match[1]}"
    return found
