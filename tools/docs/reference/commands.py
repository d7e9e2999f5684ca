"""Every verb of the command line with its arguments and options, and what the exit codes mean."""

import re
from typing import Any

from typer import Context
from typer.main import get_command

from tiercel import cli
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.group import PANELS

from .tables import code, table

HEAD = """# Commands

`tiercel COMMAND --help` prints the same. [On the command line](../command-line.md) shows how the verbs are
used together, and [Exit codes](exit-codes.md) what they give back.

"""


def page() -> str:
    group = get_command(cli.app)
    context: Any = Context(group)
    parts = [HEAD, _overview(group, context)]
    for panel, verbs in PANELS.items():
        parts.append(f"## {panel}\n\n")
        parts += [
            _verb(f"tiercel {verb}", group.get_command(context, verb), context, "###") for verb in verbs
        ]
    return "".join(parts)


def exit_codes() -> str:
    rows = [(int(each), each.name.lower().replace("_", " "), each.meaning) for each in ExitCode]
    head = "# Exit codes\n\nOf every verb; a verb that has others says so.\n\n"
    return head + table(("code", "name", "meaning"), rows)


def _overview(group: Any, context: Any) -> str:
    rows = [
        (f"[`{verb}`](#tiercel-{verb})", group.get_command(context, verb).get_short_help_str(200), panel)
        for panel, verbs in PANELS.items()
        for verb in verbs
    ]
    return table(("verb", "what it does", "panel"), rows) + "\n"


def _verb(name: str, command: Any, context: Any, level: str) -> str:
    parts = [f"{level} {name}\n\n{_prose(command.help)}\n\n"]
    own = Context(command, parent=context, info_name=name.rpartition(" ")[2])
    arguments, options = [], []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            arguments.append((code(_metavar(parameter)), _plain(parameter.help or "")))
        elif not parameter.hidden and "--help" not in parameter.opts:
            names = " ".join(map(code, [*parameter.opts, *parameter.secondary_opts]))
            kind = "" if parameter.is_flag else code(_metavar(parameter))
            options.append((f"{names} {kind}".strip(), _default(parameter), _plain(parameter.help or "")))
    if arguments:
        parts.append(table(("argument", "meaning"), arguments) + "\n")
    if options:
        parts.append(table(("option", "default", "meaning"), options) + "\n")
    if command.epilog:
        parts.append(f"{_prose(command.epilog)}\n\n")
    for each, child in getattr(command, "commands", {}).items():
        parts.append(_verb(f"{name} {each}", child, own, f"{level}#"))
    return "".join(parts)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _default(parameter: Any) -> str:
    value = parameter.default
    return "" if value in (None, False, ()) or callable(value) else code(value)


def _prose(text: str | None) -> str:
    """Indented lines are examples, and stay as they are."""
    paragraphs = []
    for paragraph in (text or "").split("\n\n"):
        if paragraph.startswith("  "):
            lines = "\n".join(line.removeprefix("    ") for line in paragraph.splitlines())
            paragraphs.append(f"```text\n{lines}\n```")
        else:
            paragraphs.append(_plain(paragraph))
    return "\n\n".join(paragraphs)


def _plain(text: str) -> str:
    """Without the markup of rich."""
    return re.sub(r"\\\[", "[", re.sub(r"(?<!\\)\[/?[a-z ]+\]", "", text)).replace("<", "&lt;")
