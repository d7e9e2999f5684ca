"""Messages as columns of Arrow: the table of columns, messages to batches, and rows to messages.

Everything here is numpy and pyarrow and needs the extra `data`; nothing here does I/O. Stored messages are
made into batches by `tiercel.columns.stored`, which is not imported here: a task of Spark needs nothing of
it, and starts a tenth of a second earlier.
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
]
