"""Generates the synchronous queues from the asynchronous ones, as `make synchronous` does.

Both stand in the repository, so that readers, debuggers and type checkers see ordinary code. A test compares
them.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

CLIENT: Final = Path(__file__).resolve().parent.parent / "src" / "tiercel" / "client"
# The asynchronous module, and the synchronous one with its first sentence.
PAIRS: Final = {
    "embedded_aio": ("embedded_sync", "The embedded queue manager."),
    "daemon_aio": ("daemon_sync", "The queues of a running daemon."),
}
# In this order.
_REPLACED: Final = (
    (r"\n    # Asyncio only\.\n.*\Z", ""),  # to the end of the file
    (r"  # noqa: ASYNC109[^\n]*", ""),
    (r"AsyncGenerator\[Message, None\]", "Generator[Message, None, None]"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"__a(enter|exit|iter)__", r"__\1__"),
    (r"\bAsync(?=[A-Z])", ""),
)


def generated(source: str) -> str:
    target, sentence = PAIRS[source]
    text = (CLIENT / f"{source}.py").read_text("utf-8")
    head = f'"""{sentence} Generated from {source}.py by `make synchronous`: do not edit."""'
    text = re.sub(r'\A""".*?"""', lambda _: head, text, flags=re.DOTALL)
    for pattern, replacement in _REPLACED:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    name = str(CLIENT / f"{target}.py")
    return _ruff("format", name, _ruff("check", name, text, "--fix", "--quiet", "--select", "I"))


def _ruff(command: str, name: str, text: str, *options: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    words = [str(ruff), command, *options, "--stdin-filename", name, "-"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout


if __name__ == "__main__":
    for module, (target, _) in PAIRS.items():
        (CLIENT / f"{target}.py").write_text(generated(module), "utf-8")
