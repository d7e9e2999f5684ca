"""The console with a long queue, in a real browser, and what consoles that watch take from port 1801.

bench_console.py [--messages N] [--pairs N] [--bar POINTS] [--rounds N] [--only browser|watching]

In the browser: milliseconds from the click to what it shows, beside the target. Then a sender on port 1801,
by turns with nobody watching and with three consoles open (overview, list, live tail): processor time of the
daemon for each message. As in bench_pairs, a pair is the median of its turns, the result is the median of the
pairs, and its spread their interquartile range; a round with a spread above the bar is repeated.
"""

import argparse
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import mqqb
from bench_daemon import Meter, folder

import tiercel

HOST = "127.0.0.1"
LONG, INCOMING = "long", "in"
CONSOLES = ("", f"queue/{LONG}", f"queue/{INCOMING}?view=tail")
SENT = 10_000  # messages of a turn
TURNS = 5  # of a pair
WINDOW = 64
JUMPS = 20
FRAMES_S = 3
WIDTH, HEIGHT = 1280, 800

# Until something is shown: looked at in every frame, so that the figure is what people see.
UNTIL = """([act, shown]) => new Promise((done, fail) => {
    const isShown = SHOWN[shown];
    const start = performance.now();
    ACTS[act[0]](...act.slice(1));
    const look = () => {
        if (isShown()) done(performance.now() - start);
        else if (performance.now() - start > 60000) fail(new Error("not shown: " + shown));
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})"""
PREPARE = """() => {
    const texts = (selector) => [...document.querySelectorAll(selector)].map((each) => each.textContent);
    const labels = () => texts(".spacer .row .label");
    const set = (field, value) => {
        field.value = value;
        field.dispatchEvent(new Event("input", {bubbles: true}));
        field.form.requestSubmit();
    };
    window.ACTS = {
        open: (hash) => { location.hash = hash; },
        jump: (row) => { window.wanted = "message " + row; set(document.querySelector("[name=row]"), row); },
        search: (text) => set(document.querySelector("[data-filter]"), text),
    };
    window.SHOWN = {
        rows: () => labels().includes("message 1"),
        row: () => labels().includes(window.wanted),
        none: () => texts("main .quiet").some((each) => /^0 matches in [0-9,]+ messages$/.test(each)),
    };
}"""
SCROLL = """(seconds) => new Promise((done) => {
    const list = document.querySelector("[role=grid]");
    const times = [];
    let rows = 0;
    const step = (now) => {
        times.push(now);
        list.scrollTop += 60;
        rows = Math.max(rows, list.querySelectorAll("[role=row]").length);
        if (now - times[0] < seconds * 1000) requestAnimationFrame(step);
        else done({frames: (times.length - 1) / ((now - times[0]) / 1000), rows,
            longest: Math.max(...times.slice(1).map((each, at) => each - times[at]))});
    };
    requestAnimationFrame(step);
})"""


class Daemon:
    def __init__(self, place: Path, messages: int) -> None:
        data, config = place / "data", place / "tiercel.toml"
        with tiercel.open(data) as qm:
            qm.create_queue(rf".\private$\{INCOMING}")
            queue = qm.create_queue(rf".\private$\{LONG}")
            for start in range(1, messages + 1, 1000):
                numbers = range(start, min(start + 1000, messages + 1))
                queue.send_many(
                    [tiercel.Message(bytes(500), label=f"message {each}", delivery=1) for each in numbers]
                )
        window = f"window_size = {WINDOW}\ntiercel_window_size = {WINDOW}\n"
        config.write_text(f'[api]\nenabled = true\nport = 0\n[binary]\n{window}[log]\nformat = "json"\n')
        words = [sys.executable, "-m", "tiercel", "serve", "--data", str(data), "--config", str(config)]
        self.process = subprocess.Popen([*words, "--listen", f"{HOST}:0"], stderr=subprocess.PIPE, text=True)  # noqa: S603
        assert self.process.stderr is not None
        events = map(json.loads, self.process.stderr)
        start_line = next(each for each in events if each["event"] == "start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.port = int(start_line["address"].rpartition(":")[2])
        self.console = f"{start_line['api']}/console/"

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # for this bench only

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("Chromium is missing: `make console-test` installs it")
    with ExitStack() as stack:
        driver = stack.enter_context(sync_playwright())
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        yield stack.enter_context(driver.chromium.launch(executable_path=chromium, args=arguments))


def open_page(chromium: Any, daemon: Daemon, place: str = "") -> Any:
    page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.goto(f"{daemon.console}#/{place}")
    page.locator("main h1").wait_for()
    return page


def measure_browser(chromium: Any, daemon: Daemon, messages: int) -> None:
    print(f"{messages:,} messages in the browser{'':14}{'median':>10}{'longest':>10}{'target':>10}")
    page = open_page(chromium, daemon)
    page.evaluate(PREPARE)

    def timed(act: list[Any], shown: str) -> float:
        took: float = page.evaluate(UNTIL, [act, shown])
        return took

    first = []
    for _ in range(5):
        first.append(timed(["open", f"#/queue/{LONG}"], "rows"))
        page.goto(f"{daemon.console}#/health")
        page.get_by_role("heading", name="Health").wait_for()
    show("first rows, ms", first, "200")
    timed(["open", f"#/queue/{LONG}"], "rows")
    rows = [random.randrange(1, messages + 1) for _ in range(JUMPS)]
    show("jump to any row, ms", [timed(["jump", str(row)], "row") for row in [*rows, messages]], "300")
    scrolled = page.evaluate(SCROLL, FRAMES_S)
    show("frames a second while scrolling", [scrolled["frames"]], "60")
    show("longest frame while scrolling, ms", [scrolled["longest"]], "")
    show("rows in the DOM", [scrolled["rows"]], "< 300")
    page.goto(f"{daemon.console}#/queue/{LONG}?view=search")
    page.locator("[data-filter]").wait_for()
    show("search without a match, ms", [timed(["search", f"nothing{at}"], "none") for at in range(3)], "1000")
    page.close()


def show(name: str, values: list[float], target: str) -> None:
    print(f"{name:42}{statistics.median(values):10,.0f}{max(values):10,.0f}{target:>10}", flush=True)


def cost(daemon: Daemon) -> float:
    """Microseconds of the daemon's processor time for a message that comes in on port 1801."""
    sender = mqqb.Sender((HOST, daemon.port), rf"DIRECT=TCP:{HOST}\private$\{INCOMING}", 1024, WINDOW)
    meter = Meter(daemon.process.pid)
    sender.send(SENT)
    used = meter.seconds
    sender.close()
    return used / SENT * 1e6


def measure_watching(chromium: Any, daemon: Daemon, pairs: int, bar: float, rounds: int) -> None:
    print(f"\n{'port 1801, CPU us a message':30}{'alone':>10}{'3 consoles':>12}{'change':>10}")
    cost(daemon)  # warm
    for _ in range(rounds):
        changes = [one_pair(chromium, daemon) for _ in range(pairs)]
        low, median, high = statistics.quantiles(changes, n=4, method="inclusive")
        spread = (high - low) * 100
        name = f"median of {pairs} pairs"
        print(f"{name:52}{median:+10.1%} (spread {spread:.1f} points; target < 5 %)", flush=True)
        if spread < bar:
            return
    print(f"the spread is above {bar:g} points in each of {rounds} rounds")


def one_pair(chromium: Any, daemon: Daemon) -> float:
    """The change by three consoles; what else the computer does meets both sides of a turn alike."""
    turns = [(cost(daemon), watched_cost(chromium, daemon)) for _ in range(TURNS)]
    change = statistics.median(watched / alone - 1 for alone, watched in turns)
    alone, watched = (statistics.median(each) for each in zip(*turns, strict=True))
    print(f"{'':30}{alone:10.1f}{watched:12.1f}{change:+10.1%}", flush=True)
    return change


def watched_cost(chromium: Any, daemon: Daemon) -> float:
    pages = [open_page(chromium, daemon, place) for place in CONSOLES]
    time.sleep(1)  # what opening costs is not what watching costs
    used = cost(daemon)
    for page in pages:
        page.close()
    time.sleep(0.5)
    return used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument(
        "--bar", type=float, default=3.0, help="largest accepted spread, in points (default: 3)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="most rounds (default: 3)")
    parser.add_argument("--only", choices=("browser", "watching"))
    given = parser.parse_args()
    with folder() as place:
        daemon = Daemon(place, given.messages)
        try:
            with browser() as chromium:
                if given.only != "watching":
                    measure_browser(chromium, daemon, given.messages)
                if given.only != "browser":
                    measure_watching(chromium, daemon, given.pairs, given.bar, given.rounds)
        finally:
            daemon.stop()


if __name__ == "__main__":
    main()
