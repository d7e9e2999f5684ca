"""Ready-made reports on a table of messages: each is a Spark job that computes a few numbers, and a chart.

A report is a module with NAME, TITLE, NEEDS (the columns it requires), `job(rows)`, which runs on Spark, and
`draw(figure, findings)`, which draws the results. `make` runs all of it and writes a PNG and an HTML
page.
"""

from tiercel.pipeline.reports.making import REPORTS, Made, ReportError, make

__all__ = ["REPORTS", "Made", "ReportError", "make"]
