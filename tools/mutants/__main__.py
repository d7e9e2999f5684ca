"""Break lines of the code and print the changes that no test notices.

    mutants --count 30 --seed 7 [--jobs 2] [--only wire/structure]

The same seed draws the same lines of the same code. Each mutant lives in a copy of the repository, in
build/mutants, and is tried with the tests that touch its line, until the first of them fails.
`equivalent.txt` lists the mutants that no test can kill, and says why.
"""

import argparse
import hashlib
import multiprocessing
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import trial
from coverage_map import CoverageMap, Recorder
from mutations import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutants"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
FOLDERS = ("engine", "binary", "store", "wire", "remote_read")
# The tests of these folders, and of what is built from them. Others touch the lines too, but are about
# something else, or slow.
TESTS = ("binary", "crash", "engine", "fuzz", "model_based", "remote_read", "server", "sim", "store", "wire")
FIRST_ROUND = 150  # tests
ROUND_S = 60.0  # no test begins later than this
HANGS_S = 100.0  # then the mutant is killed
MEASURING_S = 3600.0

ALIVE = {"survived", "untested"}

Outcome = tuple[Mutant, str]


def main() -> int:
    parser = argparse.ArgumentParser(description="Break lines of the code and print what no test notices.")
    parser.add_argument("--count", type=int, default=30, help="Number of lines to break (default: 30).")
    parser.add_argument("--seed", default="1", help="Seed of the draw (default: 1).")
    parser.add_argument("--jobs", type=int, default=2, help="Mutants tried at the same time (default: 2).")
    parser.add_argument("--only", default="", help="Part of the path of the files to break.")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="Folders of tests to run.")
    options = parser.parse_args()

    copies = [_copy(number) for number in range(options.jobs)]
    trial.preload()
    data_files = _measure(copies, options.tests)
    chosen = _draw(copies[0], options.count, options.seed, options.only)
    coverage = CoverageMap(data_files)
    work = [(mutant, coverage.tests_of(mutant)) for mutant in chosen]
    del coverage
    known = _equivalent()
    outcomes: list[Outcome] = []
    started = time.monotonic()
    with _pool(copies) as pool:
        for mutant, tried in pool.imap_unordered(_try, work):
            outcome = "equivalent" if tried in ALIVE and mutant.key in known else tried
            outcomes.append((mutant, outcome.partition(" ")[0]))
            print(f"{len(outcomes):4} {mutant}\n     {outcome}", flush=True)
    _print_table(outcomes, time.monotonic() - started)
    return int(any(outcome in ALIVE for _, outcome in outcomes))


def _copy(number: int) -> Path:
    """A copy of what git knows, as it stands in the working tree."""
    target = BUILD / str(number)
    shutil.rmtree(target, ignore_errors=True)
    for name in _git("ls-files", "--cached", "--others", "--exclude-standard"):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def _git(*arguments: str) -> list[str]:
    command = ["git", "-C", str(ROOT), *arguments]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  # no input
    return listed.stdout.splitlines()


def _draw(copy: Path, count: int, seed: str, only: str) -> list[Mutant]:
    """One mutant each of `count` lines."""
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for folder in FOLDERS:
        for path in sorted((copy / "src/tiercel" / folder).rglob("*.py")):
            name = str(path.relative_to(copy))
            for mutant in mutants_of(path, name) if only in name else ():
                by_line.setdefault((name, mutant.line), []).append(mutant)
    draw = random.Random(seed)  # noqa: S311  # a seed is the point
    return [draw.choice(by_line[line]) for line in draw.sample(sorted(by_line), min(count, len(by_line)))]


# Measuring.


def _measure(copies: list[Path], folders: Iterable[str]) -> list[Path]:
    """Runs all tests once, as far as that was not done for this code."""
    sources = _digest(copies[0].glob("src/**/*.py"), b"")
    common = _digest(copies[0].glob("tests/*.py"), sources)
    wanted = {}
    for name in folders:
        digest = _digest((copies[0] / "tests" / name).rglob("*.py"), common)
        wanted[name] = BUILD / f"{name}-{digest.hex()[:16]}.coverage"
    missing = [(name, path) for name, path in wanted.items() if not path.with_suffix(".json").exists()]
    if missing:
        print(f"measuring which tests of {len(missing)} folders touch which line", flush=True)
        with _pool(copies) as pool:
            for name, seconds in pool.imap_unordered(_measure_folder, missing):
                print(f"     {seconds:6.0f} s  tests/{name}", flush=True)
    for path in BUILD.glob("*.coverage"):
        if path.name.partition("-")[0] in wanted and path not in wanted.values():
            path.unlink()
            path.with_suffix(".json").unlink(missing_ok=True)
    return [path for path in wanted.values() if path.with_suffix(".json").exists()]


def _digest(paths: Iterable[Path], seed: bytes) -> bytes:
    digest = hashlib.sha256(seed)
    for path in sorted(paths):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.digest()


def _measure_folder(job: tuple[str, Path]) -> tuple[str, float]:
    name, data_file = job
    copy = _own_copy
    sources = [f"src/tiercel/{folder}" for folder in FOLDERS]

    def work() -> int:
        recorder = Recorder(data_file, sources)
        status = trial.run_pytest([f"tests/{name}"], recorder)
        if status == trial.PASSED:
            recorder.save()
        return status

    started = time.monotonic()
    status = trial.in_child(copy, work, MEASURING_S, BUILD / f"{name}.log")
    if status != trial.PASSED:
        print(f"the tests in tests/{name} fail without a mutant: see {BUILD / name}.log", flush=True)
    return name, time.monotonic() - started


# Trying.

_own_copy = Path()


def _pool(copies: list[Path]) -> "multiprocessing.pool.Pool":
    context = multiprocessing.get_context("fork")
    free = context.SimpleQueue()
    for copy in copies:
        free.put(copy)
    return context.Pool(len(copies), initializer=_take_copy, initargs=(free,))


def _take_copy(free: "multiprocessing.SimpleQueue[Path]") -> None:
    global _own_copy  # noqa: PLW0603  # each process of the pool has one
    _own_copy = free.get()


def _try(job: tuple[Mutant, list[str]]) -> Outcome:
    mutant, tests = job
    if not tests:
        return mutant, "untested"
    path, log = _own_copy / mutant.path, _own_copy.with_suffix(".log")
    original = path.read_bytes()
    path.write_bytes(mutant.source)
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
    try:
        for part in (tests[:FIRST_ROUND], tests[FIRST_ROUND:]):
            work = partial(trial.run_selected, part, ROUND_S)
            if part and trial.in_child(_own_copy, work, HANGS_S, log) != trial.PASSED:
                return mutant, _killer(log)
        return mutant, "survived"
    finally:
        path.write_bytes(original)
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def _killer(log: Path) -> str:
    """The test that failed; without one, the mutant hung or could not be imported."""
    lines = log.read_text("utf-8", "replace").splitlines()
    return next((line for line in lines if line.startswith(trial.KILLER)), "killed")


def _equivalent() -> set[str]:
    lines = EQUIVALENT.read_text("utf-8").splitlines()
    return {line for line in lines if line and not line.startswith((" ", "#"))}


def _print_table(outcomes: list[Outcome], seconds: float) -> None:
    kinds = ("killed", "survived", "untested", "equivalent")
    counts = Counter((Path(mutant.path).parent.name, outcome) for mutant, outcome in outcomes)
    print(f"\n{'':12}" + "".join(f"{kind:>12}" for kind in kinds))
    for folder in FOLDERS:
        print(f"{folder:12}" + "".join(f"{counts[folder, kind]:12}" for kind in kinds))
    print(f"\n{len(outcomes)} mutants in {seconds:.0f} s")
    for mutant, outcome in sorted(outcomes, key=lambda each: (each[1], each[0].path, each[0].line)):
        if outcome in ALIVE:
            print(f"{outcome}: {mutant}")


if __name__ == "__main__":
    sys.exit(main())
