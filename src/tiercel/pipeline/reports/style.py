"""How every picture looks: quiet axes, colours that the colour-blind can tell apart, words where they belong."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Final

import matplotlib as mpl
import matplotlib.dates as mdates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from tiercel.pipeline.reports.times import Axis, duration, moments

INK: Final = "#22303c"
SOFT: Final = "#66737f"
FAINT: Final = "#dde3e8"
# Okabe and Ito's colours, which stay apart for every kind of colour blindness.
COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7fb8", "#9aa5ae")
OTHERS: Final = "#b9c2ca"
_PAPER: Final = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}  # under words, so that no line strikes them
# Young to old, light to dark.
AGES: Final = (
    "#d9f0e3", "#b5e0cf", "#8accbd", "#5cb5ad", "#38979b", "#2b7788", "#2b5873", "#2d3b59", "#2b2440",
)  # fmt: skip

_SETTINGS: Final = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": SOFT,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlepad": 10,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "font.size": 9.5,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "svg.hashsalt": "tiercel",  # the same numbers give the same file
    "timezone": "UTC",
}


@contextmanager
def styled() -> Iterator[None]:
    with mpl.rc_context(_SETTINGS):
        yield


def headed(figure: Figure, title: str, headline: str) -> None:
    """The title and what the picture says, above everything."""
    figure.text(0.03, 0.955, title, fontsize=16, fontweight="bold", color=INK, va="center")
    figure.text(0.03, 0.905, headline, fontsize=10.5, color=SOFT, va="center")


def colours(names: Sequence[str], others: str | None = None) -> Mapping[str, str]:
    found = dict(zip([each for each in names if each != others], COLOURS, strict=False))
    return found | ({others: OTHERS} if others in names else {}) if others else found


def stacked_columns(
    axes: Axes, axis: Axis, series: Mapping[str, Sequence[float]], palette: Mapping[str, str]
) -> None:
    """One column for each piece of time, the series on top of each other."""
    starts = moments(axis.starts)
    width = axis.width / 86400 * 0.86
    bottom = [0.0] * len(starts)
    for name, values in series.items():
        axes.bar(starts, values, width, bottom, color=palette[name], label=name, align="edge", linewidth=0)  # type: ignore[arg-type]
        bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    dated(axes, axis)
    counted(axes)


def dated(axes: Axes, axis: Axis) -> None:
    begin, end = moments([axis.first, axis.last + axis.width])
    axes.set_xlim(begin, end)  # type: ignore[arg-type]
    locator = mdates.AutoDateLocator(tz=UTC, minticks=4, maxticks=9)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(_times(locator))


def _times(locator: mdates.AutoDateLocator) -> mdates.ConciseDateFormatter:
    """The day stands where one begins; which year it is, the headline says."""
    formats = ["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S"]
    zeros = ["", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M"]
    return mdates.ConciseDateFormatter(locator, tz=UTC, formats=formats, zero_formats=zeros, show_offset=False)


def counted(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def legend(axes: Axes, columns: int = 4) -> None:
    """Above the axes at the right, where no data is."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=columns,
        handlelength=0.9,
        handleheight=0.9,
        columnspacing=1.4,
        borderaxespad=0.2,
    )


def spans(axes: Axes, names: Sequence[str], values: Sequence[tuple[float, float, float]], colour: Mapping[str, str]) -> None:
    """For each name a line from the median to the longest, a dot at each of three values, and the words."""
    floor = 0.5  # MSMQ counts whole seconds: what took less is shown at half a second
    for place, (name, three) in enumerate(zip(names, values, strict=True)):
        low, middle, high = (max(each, floor) for each in three)
        axes.plot([low, high], [place, place], color=colour[name], linewidth=5, alpha=0.28, solid_capstyle="round")
        axes.plot([low], [place], "o", color=colour[name], markersize=9)
        axes.plot([middle], [place], "o", color="white", markeredgecolor=colour[name], markeredgewidth=2, markersize=8)
        axes.plot([high], [place], "|", color=colour[name], markersize=13, markeredgewidth=2)
        words = "  ".join(f"{label} {duration(each)}" for label, each in zip(("p50", "p95", "max"), three, strict=True))
        axes.annotate(words, (high, place), (12, 0), textcoords="offset points", va="center", fontsize=8.5, color=SOFT, bbox=_PAPER)
    axes.set_yticks(range(len(names)), names, color=INK)
    axes.set_ylim(len(names) - 0.4, -0.6)
    longest = max((three[2] for three in values), default=1.0)
    axes.set_xscale("log")
    axes.set_xlim(floor * 0.8, max(longest, 1.0) * 16)
    ticks = [each for each in (0.5, 1, 5, 15, 60, 300, 1800, 7200, 43200, 172800) if each <= max(longest, 1) * 2]
    axes.set_xticks(ticks, ["below 1 s" if each < 1 else duration(each) for each in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)


def short_queue(name: str | None) -> str:
    r"""`orders` of `server\private$\orders`; what has no queue is called so."""
    if not name:
        return "(no queue)"
    return name.replace("/", "\\").rpartition("\\")[2] or name


def clipped(text: str, length: int = 38) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
