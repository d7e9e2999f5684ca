"""What checks cost plain messages: the daemon beside one that leaves them out, of the same tree.

bench_checks.py security|belief [--cases in out both once] [--messages N] [--pairs N] ...

security   message security: signatures, encryption, verdicts (a message that has none of them)
belief     who is believed on port 1801, and the bounds on what strangers can make the daemon keep

CPU time per message, in alternating pairs, as `bench_pairs.py` measures. `without_checks.py` has what is left
out.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench_daemon import folder
from bench_pairs import CASES, ROOT, add_options, compare


def bare_tree(place: Path) -> Path:
    """The sources of this tree, with a `sitecustomize` that takes the checks out."""
    tree = Path(tempfile.mkdtemp(dir=place))
    source = tree / "src"
    source.mkdir()
    for package in ("tiercel", "pyspark_msmq"):
        (source / package).symlink_to(ROOT / "src" / package)
    (source / "sitecustomize.py").symlink_to(ROOT / "bench" / "without_checks.py")
    return tree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("without", choices=("security", "belief"))
    parser.add_argument("--cases", nargs="+", choices=CASES, default=("in", "out", "once"))
    add_options(parser)
    arguments = parser.parse_args()
    os.environ["TIERCEL_BENCH_WITHOUT"] = arguments.without  # read only where `without_checks` is imported
    with folder() as place:
        sys.stdout.write(f"base: without {arguments.without}; {arguments.pairs} pairs\n")
        compare((bare_tree(place), ROOT), place, arguments)


if __name__ == "__main__":
    main()
