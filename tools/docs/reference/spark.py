"""The options and columns of the Spark source: values from the code, words from docs/spark.md."""

from dataclasses import MISSING, fields
from typing import Any

from pyspark_msmq import options
from tiercel import columns

from .tables import code, meanings, table

HEAD = """# Spark options and columns

`format("msmq")`; [Queues in Spark](../spark.md) explains how to use them.

"""
_ROLES = {
    "Batch reads: `spark.read`": options.BatchOptions,
    "Streams: `spark.readStream`": options.StreamOptions,
    "Writes: `write` and `writeStream`": options.WriteOptions,
}


def page() -> str:
    words = meanings("spark.md")
    parts = [HEAD]
    for title, role in _ROLES.items():
        rows = [
            (code(name), code(_default(each)), words.get(name, _ELSEWHERE.get(name, "")))
            for each in fields(role)
            if (name := each.metadata["name"]) != "checkpointLocation"  # Spark's own
        ]
        parts.append(f"## {title}\n\n{table(('option', 'default', 'meaning'), rows)}\n")
    rows = [
        (code(each.name), code(each.kind), each.group, "yes" if each.written else "")
        for each in columns.COLUMNS
    ]
    parts.append(f"## Columns\n\n{table(('column', 'type', 'group', 'may be written'), rows)}")
    return "".join(parts)


_ELSEWHERE = {
    "passwordFile": "`msmq-rpc`: a file with the password of the user",
    "keytab": "`msmq-rpc`: a file with the Kerberos keys of the user",
}


def _default(option: Any) -> str:
    value = option.default
    match value:
        case None | _ if value is None or value is MISSING:
            return ""
        case bool():
            return str(value).lower()
        case options.Position():
            return str(value.kind)
    return str(value)
