"""The data source: `spark.read.format("msmq")`, `readStream`, `write` and `writeStream`."""

from contextlib import suppress
from pathlib import Path

from pyspark import SparkFiles
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyspark_msmq import schema
from pyspark_msmq.batch_reader import BatchReader
from pyspark_msmq.browse_stream import BrowseReader
from pyspark_msmq.options import (
    read_any_options,
    read_batch_options,
    read_stream_options,
    read_write_options,
)
from pyspark_msmq.stream_reader import ConsumeReader
from pyspark_msmq.writers import BatchWriter, StreamWriter, check_writing


class DefaultSource(DataSource):
    """Spark finds this class by its name and that of the package, without registration."""

    @classmethod
    def name(cls) -> str:
        return "msmq"

    def schema(self) -> StructType:
        """All columns selected by the options; `.schema(...)` may select fewer."""
        return schema.of_options(read_any_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_batch_options(self.options)
        if options.url.is_rpc:
            from pyspark_msmq.remote import RpcBatchReader  # noqa: PLC0415  # half a second that few need

            return RpcBatchReader(options, schema)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = read_stream_options(self.options)
        if options.url.is_rpc:
            from pyspark_msmq.remote import RpcConsumeReader  # noqa: PLC0415  # the same

            return RpcConsumeReader(options, schema)
        return ConsumeReader(options, schema) if options.is_consuming else BrowseReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = read_write_options(self.options)
        check_writing(options, schema, overwrite=overwrite)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = read_write_options(self.options)
        check_writing(options, schema, overwrite=overwrite)
        return StreamWriter(options)


def register(spark: SparkSession) -> None:
    """Make `format("msmq")` work where Spark does not find it by itself; repeating this has no effect.

    Call it after `--py-files`, with Spark Connect if the server does not find the package, and in every
    thread but the main one that writes to queues.
    """
    try:
        spark.dataSource.register(DefaultSource)
    except PySparkException as problem:
        if problem.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # it has found the package
            raise
    if isinstance(spark, SparkSession):  # that of Spark Connect is another class
        _activate(spark)
        _show_py_files_to_streams()


def _activate(spark: SparkSession) -> None:
    """Spark looks for the source of a write in the thread's active session, and a new thread has none."""
    jvm = spark._jvm  # noqa: SLF001  # Python has no public call for it
    assert jvm is not None
    SparkSession._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)  # noqa: SLF001


def _show_py_files_to_streams() -> None:
    """The files of `--py-files` where the driver's process of a stream looks for them.

    That is a subfolder of the right one (Spark 4.2 and 4.3).
    """
    files = Path(SparkFiles.getRootDirectory())
    with suppress(FileExistsError):
        (files / "streaming_job").symlink_to(files)
