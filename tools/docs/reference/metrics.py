"""Every metric of /metrics, from the table that the program itself uses."""

from tiercel.api.metrics import METRICS

from .tables import code, table

HEAD = """# Metrics

What `GET /metrics` gives, in the text format of Prometheus, beside the usual `process_...` of the daemon
itself. [Metrics and health](../monitoring.md) says how to get it.

"""


def page() -> str:
    rows = [(code(each.name), each.kind, " ".join(map(code, each.labels)), each.meaning) for each in METRICS]
    return HEAD + table(("metric", "kind", "labels", "meaning"), rows)
