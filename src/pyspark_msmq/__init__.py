r"""MSMQ queues in Spark: `spark.read.format("msmq").option("queue", r".\private$\orders").load()`.

Spark finds `DefaultSource` by itself. `session()` gives a Spark session on a Java that is there or comes from
PyPI. docs/spark.md has every column, every option and what is guaranteed.
"""

from pyspark_msmq.java import ensure_java
from pyspark_msmq.source import DefaultSource
from pyspark_msmq.spark_session import session

__all__ = ["DefaultSource", "ensure_java", "session"]
