"""Messages as Arrow columns: the table of columns, messages to batches, and rows to messages.

Requires the extra `data` (numpy, pyarrow); does no I/O. `tiercel.columns.stored` turns stored messages into
batches. It is not imported here, because Spark tasks do not need it and start a tenth of a second earlier
without it.
"""

from tiercel.columns.cutting import cut
from tiercel.columns.filters import RowFilter
from tiercel.columns.messages import of_messages
from tiercel.columns.schema import (
    COLUMNS,
    SCHEMA,
    Column,
    UnknownColumnError,
    arrow_schema,
    check_names,
    names,
)
from tiercel.columns.written import (
    WRITER_COLUMNS,
    RowValueError,
    WriterSchemaError,
    check_rows,
    check_writer_schema,
    messages_of,
    without_signature,
)

__all__ = [
    "COLUMNS",
    "SCHEMA",
    "WRITER_COLUMNS",
    "Column",
    "RowFilter",
    "RowValueError",
    "UnknownColumnError",
    "WriterSchemaError",
    "arrow_schema",
    "check_names",
    "check_rows",
    "check_writer_schema",
    "cut",
    "messages_of",
    "names",
    "of_messages",
    "without_signature",
]
