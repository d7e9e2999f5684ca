"""Tables that take each batch exactly once, whatever crashes and however often it is retried.

Every format works in the same two steps. Executors write the rows where no reader looks; then the driver adds
them to the table together with the marks `{application: batch}`, in one atomic step. A batch whose marks the
table already has is skipped. So a batch that Spark repeats, because it died before its own log said "done",
changes nothing.
"""

from tiercel.pipeline.tables.table import (
    Compacted,
    NoTableError,
    Table,
    TableError,
    TableOptions,
    Written,
    is_applied,
    open_table,
)

__all__ = [
    "Compacted",
    "NoTableError",
    "Table",
    "TableError",
    "TableOptions",
    "Written",
    "is_applied",
    "open_table",
]
