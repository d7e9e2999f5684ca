"""The columns of a message: one table of their names and types, and the Arrow schemas made of it.

The types are those that Spark's `to_arrow_schema(schema, timezone="UTC")` makes of the same columns: Spark
compares exactly, and refuses even a column that cannot be null.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

import pyarrow as pa

# What a column holds, by Spark's name of the type.
ARROW_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "long": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


class UnknownColumnError(ValueError):
    """An unknown column."""


class Column(NamedTuple):
    name: str
    kind: str  # a key of ARROW_TYPES
    group: str
    on_demand: bool = False  # only there when it is named
    written: bool = False  # senders may set it

    @property
    def type(self) -> pa.DataType:
        return ARROW_TYPES[self.kind]


# By group, in the order that a reader sees: name and type; `*` marks what senders may set.
_SPELLING = {
    "position": """
        queue string *, subqueue string, lookup_id long, claim_seq long,
        arrived_time timestamp, sent_time timestamp
    """,
    "identity": """
        message_id string, correlation_id binary *, class int, src_machine_id string, version int
    """,
    "delivery": """
        priority tinyint *, delivery tinyint *, acknowledge tinyint *, journal tinyint *, trace tinyint,
        ttrq long *, ttbr long *
    """,
    "queues": """
        dest_queue string, resp_queue string *, admin_queue string *, deadletter_queue string,
        xact_status_queue string
    """,
    "content": """
        label string *, body binary *, body_type long *, body_size long, extension binary *,
        app_specific long *, soap_envelope string
    """,
    "security": """
        sender_id binary, sender_id_type int, authenticated boolean, auth_level int, priv_level int,
        hash_alg int, encryption_alg int, signature binary, sender_cert binary, provider_name string,
        provider_type int, connector_type string
    """,
    "transaction": """
        xact_id string, first_in_xact boolean, last_in_xact boolean, abort_count int, move_count int,
        last_move_time timestamp
    """,
    "on demand": "raw binary, decode_error string, verified_sender string, verified_name string",
}


def _columns(group: str, spelling: str) -> Iterable[Column]:
    for item in spelling.split(","):
        name, kind, *star = item.split()
        yield Column(name, kind, group, on_demand=group == "on demand", written=bool(star))


COLUMNS = tuple(column for group, spelling in _SPELLING.items() for column in _columns(group, spelling))
BY_NAME = {column.name: column for column in COLUMNS}


def names() -> tuple[str, ...]:
    """The default columns: all but those on demand."""
    return tuple(column.name for column in COLUMNS if not column.on_demand)


def check_names(chosen: Iterable[str] | None = None) -> tuple[str, ...]:
    """Check that the names are columns, without duplicates."""
    chosen = names() if chosen is None else tuple(chosen)
    for name in chosen:
        if name not in BY_NAME:
            raise unknown_column(name, BY_NAME)
    if len(set(chosen)) < len(chosen):
        doubled = next(name for name in chosen if chosen.count(name) > 1)
        raise UnknownColumnError(f"column {doubled} appears twice")
    return chosen


def unknown_column(name: str, known: Iterable[str]) -> UnknownColumnError:
    known = tuple(known)
    near = get_close_matches(name, known, n=1)
    advice = f"did you mean {near[0]}?" if near else f"columns: {', '.join(known)}"
    return UnknownColumnError(f"unknown column {name!r}: {advice}")


def arrow_schema(chosen: Iterable[str] | None = None) -> pa.Schema:
    """The schema of these columns, in the order in which they are named."""
    return pa.schema([(name, BY_NAME[name].type) for name in check_names(chosen)])


SCHEMA = arrow_schema(BY_NAME)
