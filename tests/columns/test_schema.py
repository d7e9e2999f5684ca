"""The table of columns against the design, and against what Spark makes of the same columns."""

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from tiercel.columns import (
    COLUMNS,
    SCHEMA,
    WRITER_COLUMNS,
    UnknownColumnError,
    arrow_schema,
    check_names,
    names,
)

SPARK_TYPES = {
    "string": spark.StringType(),
    "binary": spark.BinaryType(),
    "boolean": spark.BooleanType(),
    "tinyint": spark.ByteType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "timestamp": spark.TimestampType(),
}


def test_spark_makes_the_same_arrow_schema() -> None:
    struct = spark.StructType(
        [spark.StructField(column.name, SPARK_TYPES[column.kind]) for column in COLUMNS]
    )
    expected = to_arrow_schema(struct, timezone="UTC")
    assert expected.equals(SCHEMA, check_metadata=True)


DESIGN = """
queue:string subqueue:string lookup_id:long claim_seq:long arrived_time:timestamp sent_time:timestamp
message_id:string correlation_id:binary class:int src_machine_id:string version:int
priority:tinyint delivery:tinyint acknowledge:tinyint journal:tinyint trace:tinyint ttrq:long ttbr:long
dest_queue:string resp_queue:string admin_queue:string deadletter_queue:string xact_status_queue:string
label:string body:binary body_type:long body_size:long extension:binary app_specific:long soap_envelope:string
sender_id:binary sender_id_type:int authenticated:boolean auth_level:int priv_level:int hash_alg:int
encryption_alg:int signature:binary sender_cert:binary provider_name:string provider_type:int
connector_type:string
xact_id:string first_in_xact:boolean last_in_xact:boolean abort_count:int move_count:int
last_move_time:timestamp
raw:binary decode_error:string verified_sender:string verified_name:string
"""


def test_columns_of_the_design() -> None:
    assert [f"{column.name}:{column.kind}" for column in COLUMNS] == DESIGN.split()


def test_columns_that_senders_set() -> None:
    assert set(WRITER_COLUMNS) == {
        *("body", "queue", "label", "priority", "delivery", "correlation_id", "resp_queue", "admin_queue"),
        *("ttrq", "ttbr", "extension", "app_specific", "body_type", "journal", "acknowledge"),
    }


def test_what_is_on_demand_is_not_there_by_default() -> None:
    assert set(SCHEMA.names) - set(names()) == {"raw", "decode_error", "verified_sender", "verified_name"}
    assert arrow_schema().names == list(names())


def test_columns_stand_in_the_order_asked_for() -> None:
    schema = arrow_schema(["label", "body", "class"])
    assert schema == pa.schema([("label", pa.string()), ("body", pa.binary()), ("class", pa.int32())])


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (["label", "boddy"], "unknown column 'boddy': did you mean body?"),
        (["zzzzzz"], "unknown column 'zzzzzz': columns: queue, subqueue"),
        (["label", "body", "label"], "label appears twice"),
    ],
)
def test_wrong_columns_are_named(chosen: list[str], words: str) -> None:
    with pytest.raises(UnknownColumnError) as problem:
        check_names(chosen)
    assert words in str(problem.value)
