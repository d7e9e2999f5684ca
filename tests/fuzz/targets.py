"""Runs one parser under a coverage-guided fuzzer: `targets.py --list`, `targets.py NAME [libFuzzer flags]`.

docs/fuzzing.md says what to do with a finding. The corpus stays in build/fuzz/NAME and grows from run to run.
"""

import hashlib
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


def main(arguments: list[str]) -> int:
    if arguments == ["--list"]:
        say("\n".join(import_module("promises").TARGETS))
        return 0
    if not arguments or arguments[0].startswith("-"):
        say(__doc__)
        return 2
    # The fuzzer sees which branches were taken only in modules that it has seen imported.
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["tiercel"], enable_loader_override=False):
        targets = import_module("promises").TARGETS
    name, *flags = arguments
    if name not in targets:
        say(f"there is no target {name}; there are {', '.join(targets)}")
        return 2
    corpus = write_corpus(name, targets[name].seeds())
    prefix = f"-artifact_prefix={corpus.parent}/{name}-"
    atheris.Setup([sys.argv[0], str(corpus), prefix, "-keep_seed=1", *flags], targets[name].check)
    atheris.Fuzz()
    return 0


def say(text: str | None) -> None:
    sys.stdout.write(f"{text}\n")


def write_corpus(name: str, seeds: list[bytes]) -> Path:
    folder = ROOT / "build" / "fuzz" / name
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (folder / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
