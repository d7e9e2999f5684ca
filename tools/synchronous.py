"""Generates the synchronous embedded queue from the asynchronous one, as `make synchronous` does.

Both stand in the repository, so that readers, debuggers and type checkers see ordinary code. A test compares
them.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

CLIENT: Final = Path(__file__).resolve().parent.parent / "src" / "tiercel" / "client"
SOURCE: Final = CLIENT / "embedded_aio.py"
TARGET: Final = CLIENT / "embedded_sync.py"

_HEAD: Final = (
    '"""The embedded queue manager. Generated from embedded_aio.py by `make synchronous`: do not edit."""'
)
# In this order.
_REPLACED: Final = (
    (r'\A""".*?"""', _HEAD),
    (r"\n    # Asyncio only\.\n.*\Z", ""),  # to the end of the file
    (r"  # noqa: ASYNC109[^\n]*", ""),
    (r"AsyncGenerator\[Message, None\]", "Generator[Message, None, None]"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"\bAsync(?=[A-Z])", ""),
)


def generated() -> str:
    text = SOURCE.read_text("utf-8")
    for pattern, replacement in _REPLACED:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    return _ruff("format", _ruff("check", text, "--fix", "--quiet", "--select", "I"))


def _ruff(command: str, text: str, *options: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    words = [str(ruff), command, *options, "--stdin-filename", str(TARGET), "-"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout


if __name__ == "__main__":
    TARGET.write_text(generated(), "utf-8")
