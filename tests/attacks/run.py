"""`python tests/attacks/run.py`: every attack on real daemons, as a table."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks.attacks import ATTACKS, FULL, SHORT, Row


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 -- a script


def main() -> None:
    scale = SHORT if "--short" in sys.argv else FULL
    rows: list[Row] = []
    say("| attack | tried | what the daemon kept or did | verdict |")
    say("| --- | --- | --- | --- |")
    for attack in ATTACKS:
        with tempfile.TemporaryDirectory(prefix="attack-") as folder:
            for row in attack(Path(folder), scale):
                say(f"| {row.attack} | {row.tried} | {row.result} | {'held' if row.is_held else 'BROKEN'} |")
                rows.append(row)
    broken = [row.attack for row in rows if not row.is_held]
    say(f"{len(rows)} attacks, {len(rows) - len(broken)} held")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
