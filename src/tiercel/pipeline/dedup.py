"""Rows that a table does not have yet, by a key such as `message_id`."""

from pyspark.sql import DataFrame, SparkSession

from tiercel.pipeline.tables import NoTableError, Table


def only_new(rows: DataFrame, table: Table, key: str) -> DataFrame:
    """The first row of each key that the table does not have; rows without a key are all kept."""
    keyed = rows.where(rows[key].isNotNull()).dropDuplicates([key])
    known = keys(table, rows.sparkSession, key)
    if known is not None:
        keyed = keyed.join(known, key, "left_anti").select(*rows.columns)
    return keyed.unionByName(rows.where(rows[key].isNull()))


def keys(table: Table, spark: SparkSession, key: str) -> DataFrame | None:
    """The keys that a table has; None if there is no table yet."""
    try:
        return table.read(spark).select(key).where(f"`{key}` is not null").distinct()
    except NoTableError:
        return None
