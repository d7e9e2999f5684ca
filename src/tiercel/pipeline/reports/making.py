"""Makes a report from a table: the job, the chart, the page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from pyspark.sql import DataFrame

from tiercel.model.errors import TiercelError
from tiercel.pipeline.reports import age, dead_letters, end_to_end, senders, style, traffic
from tiercel.pipeline.reports.findings import Findings
from tiercel.pipeline.reports.page import page


class Report(Protocol):
    """The interface of a report module."""

    NAME: str
    TITLE: str
    NEEDS: Sequence[str]
    TAKES: Sequence[str]  # where the table has them

    def job(self, rows: DataFrame) -> Findings: ...

    def height(self, findings: Findings) -> float: ...

    def draw(self, figure: Figure, findings: Findings) -> None: ...


REPORTS: Mapping[str, Report] = {
    each.NAME: each for each in (traffic, dead_letters, age, senders, end_to_end)
}


# In inches: a picture is as high as what it shows, so that none is half empty.
_WIDTH, _EMPTY = 11.0, 1.0


class ReportError(TiercelError):
    """A report cannot be made from the table; the text is one line."""


class Made(NamedTuple):
    headline: str
    png: Path
    html: Path


def make(name: str, rows: DataFrame, folder: Path) -> Made:
    """Run the report on the rows; writes FOLDER/NAME.png and FOLDER/NAME.html."""
    report = REPORTS[name]
    missing = [each for each in report.NEEDS if each not in rows.columns]
    if missing:
        raise ReportError(
            f"report {name}: the table has no column {', '.join(missing)}; it needs {', '.join(report.NEEDS)}"
        )
    wanted = [*report.NEEDS, *(each for each in report.TAKES if each in rows.columns)]
    readable = rows.where("decode_error is null") if "decode_error" in rows.columns else rows
    findings = report.job(readable.select(*wanted))
    folder.mkdir(parents=True, exist_ok=True)
    png, html = folder / f"{name}.png", folder / f"{name}.html"
    with style.styled():
        figure = _figure(report, findings)
        FigureCanvasAgg(figure).print_png(png)  # type: ignore[no-untyped-call]
        svg = folder / f".{name}.svg"
        FigureCanvasSVG(figure).print_svg(svg)  # type: ignore[no-untyped-call]
    html.write_text(page(report.TITLE, findings, svg.read_text("utf-8")), "utf-8")
    svg.unlink()
    return Made(findings.headline, png, html)


def _figure(report: Report, findings: Findings) -> Figure:
    height = _EMPTY if findings.is_empty else report.height(findings)
    figure = Figure(figsize=(_WIDTH, height), dpi=150)
    style.headed(figure, report.TITLE, findings.headline)
    if not findings.is_empty:
        report.draw(figure, findings)
        style.framed(figure)
    return figure
