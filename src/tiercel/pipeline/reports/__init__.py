"""Ready reports of a table of messages: each is a Spark job that gives a few numbers, and a picture of them.

A report is a module with NAME, TITLE, NEEDS (the columns it asks for), `job(rows)`, which runs on Spark, and
`draw(figure, findings)`, which draws what the job found. `make` does all of it and writes a PNG and an HTML
page.
"""

from tiercel.pipeline.reports.making import REPORTS, Made, ReportError, make

__all__ = ["REPORTS", "Made", "ReportError", "make"]
