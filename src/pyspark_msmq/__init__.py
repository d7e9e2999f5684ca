r"""MSMQ queues in Spark: `spark.read.format("msmq").option("queue", r".\private$\orders").load()`.

Spark finds `DefaultSource` by itself where the package is installed; otherwise call `register(spark)`.
`session()` returns a Spark session that uses the system's Java or one from PyPI. docs/spark.md describes
every column and option, and the guarantees.
"""

from pyspark_msmq.java import ensure_java
from pyspark_msmq.source import DefaultSource, register
from pyspark_msmq.spark_session import session

__all__ = ["DefaultSource", "ensure_java", "register", "session"]
