"""The style of all charts: quiet axes, distinguishable colours, labels near the data."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from math import log
from typing import Any, Final

import matplotlib as mpl
import matplotlib.dates as mdates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from tiercel.pipeline.reports.times import Axis, moments, whole_duration

INK: Final = "#22303c"
SOFT: Final = "#66737f"
FAINT: Final = "#dde3e8"
# Okabe and Ito's colours, which are distinct for every kind of colour blindness.
COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7fb8", "#9aa5ae")
OTHERS: Final = "#b9c2ca"
_PAPER: Final = {
    "facecolor": "white",
    "edgecolor": "none",
    "pad": 1.5,
}  # behind words
# Young to old, light to dark.
AGES: Final = (
    "#d9f0e3", "#b5e0cf", "#8accbd", "#5cb5ad", "#38979b", "#2b7788", "#2b5873", "#2d3b59", "#2b2440",
)  # fmt: skip

# Median, 95th percentile and longest, in seconds.
Span = tuple[float, float, float]
_PARTS: Final = ("p50", "p95", "max")
_SHORTEST: Final = 0.5

_SETTINGS: Final[dict[Any, Any]] = {
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
    "svg.hashsalt": "tiercel",  # reproducible files
    "timezone": "UTC",
}


@contextmanager
def styled() -> Iterator[None]:
    with mpl.rc_context(_SETTINGS):
        yield


def headed(figure: Figure, title: str, headline: str) -> None:
    """Draw the title and the headline above everything."""
    height = figure.get_figheight()
    figure.text(0.03, 1 - 0.3 / height, title, fontsize=16, fontweight="bold", color=INK, va="center")
    figure.text(0.03, 1 - 0.63 / height, headline, fontsize=10.5, color=SOFT, va="center")


def framed(figure: Figure) -> None:
    """Leave as much room around the axes as the texts there need, whatever the height."""
    height = figure.get_figheight()
    labels = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    widest = max((len(line) for text in labels for line in text.split("\n")), default=0)
    left = max(0.15, 0.02 + 0.0066 * widest)  # of a letter, in parts of the width
    figure.subplots_adjust(left=left, right=0.97, top=1 - 1.22 / height, bottom=0.46 / height)


def bars_height(count: int) -> float:
    """The height, in inches, of a picture with one bar for each of so many rows."""
    return 1.75 + 0.5 * max(count, 2)


def colours(names: Sequence[str], others: str | None = None) -> Mapping[str, str]:
    found = dict(zip([each for each in names if each != others], COLOURS, strict=False))
    return found | ({others: OTHERS} if others in names else {}) if others else found


def stacked_columns(
    axes: Axes, axis: Axis, series: Mapping[str, Sequence[float]], palette: Mapping[str, str]
) -> None:
    """Draw stacked columns, one per time interval."""
    starts: Any = moments(axis.starts)  # numpy's types accept dates from 2.5 on
    width = axis.width / 86400 * 0.86
    bottom = [0.0] * len(starts)
    for name, values in series.items():
        axes.bar(starts, values, width, bottom, color=palette[name], label=name, align="edge", linewidth=0)
        bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    dated(axes, axis)
    counted(axes)


def dated(axes: Axes, axis: Axis) -> None:
    begin, end = moments([axis.first, axis.last + axis.width])
    axes.set_xlim(begin, end)  # type: ignore[arg-type]
    locator = mdates.AutoDateLocator(tz=UTC, minticks=4, maxticks=9)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(_times(locator))


def _times(locator: mdates.AutoDateLocator) -> mdates.ConciseDateFormatter:
    """Show the day where it begins; the headline has the year."""
    formats = ["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S"]
    zeros = ["", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M"]
    return mdates.ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator, tz=UTC, formats=formats, zero_formats=zeros, show_offset=False
    )


def counted(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def legend(axes: Axes, columns: int = 4) -> None:
    """Place the legend above the axes on the right, where there is no data."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=columns,
        handlelength=0.9,
        handleheight=0.9,
        columnspacing=1.4,
        borderaxespad=0.2,
    )


def spans(axes: Axes, names: Sequence[str], values: Sequence[Span], colour: Mapping[str, str]) -> None:
    """Draw a line per name from the median to the longest, with a mark at each value and labels."""
    longest = max((each[2] for each in values), default=1.0)
    low, high = _SHORTEST * 0.8, max(longest, 1.0) * 20
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    for place, (name, span) in enumerate(zip(names, values, strict=True)):
        _span(axes, place, span, colour[name], is_right=span[2] > (low * high**3) ** 0.25)
    axes.set_yticks(range(len(names)), [clipped(each, 18) for each in names], color=INK)
    axes.set_ylim(len(names) - 0.4, -0.6)
    ticks = _log_ticks(low, max(longest, 1.0) * 2, high)
    axes.set_xticks(ticks, [whole_duration(each) for each in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)


def _span(axes: Axes, place: int, span: Span, colour: str, *, is_right: bool) -> None:
    # MSMQ counts whole seconds: shorter times are shown as half a second.
    low, middle, high = (max(each, _SHORTEST) for each in span)
    axes.plot([low, high], [place, place], color=colour, linewidth=5, alpha=0.28, solid_capstyle="round")
    axes.plot([low], [place], "o", color=colour, markersize=9)
    axes.plot([middle], [place], "o", color="white", markeredgecolor=colour, markeredgewidth=2, markersize=8)
    axes.plot([high], [place], "|", color=colour, markersize=13, markeredgewidth=2)
    words = "  ".join(f"{label} {whole_duration(each)}" for label, each in zip(_PARTS, span, strict=True))
    axes.annotate(
        words,
        (low if is_right else high, place),
        (-12 if is_right else 12, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="center",
        fontsize=8.5,
        color=SOFT,
        bbox=_PAPER,
    )


def _log_ticks(low: float, last: float, high: float) -> list[float]:
    """Round times, far enough apart for their labels."""
    found: list[float] = []
    for each in (0.5, 1, 5, 15, 60, 300, 1800, 7200, 43200, 172800, 1209600, 7776000, 31536000, 315360000):
        if each <= last and (not found or log(each / found[-1]) > log(high / low) * 0.075):
            found.append(each)
    return found


def short_queue(name: str | None) -> str:
    r"""`orders` of `server\private$\orders`, or "(no queue)"."""
    if not name:
        return "(no queue)"
    return name.replace("/", "\\").rpartition("\\")[2] or name


def clipped(text: str, length: int = 38) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
