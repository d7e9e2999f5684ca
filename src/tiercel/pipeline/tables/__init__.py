"""Tables that take a batch exactly once, whatever is killed and however often it is tried again.

Every kind works in the same two steps. Executors write the rows where no reader looks; then the driver makes
them part of the table together with the marks `{application: batch}` in one atomic step. A batch whose marks
the table already has is left out. So a batch that Spark runs again, because it died before its own log said
"done", changes nothing.
"""

from tiercel.pipeline.tables.table import Compacted, Table, TableError, TableOptions, Written, open_table

__all__ = ["Compacted", "Table", "TableError", "TableOptions", "Written", "open_table"]
