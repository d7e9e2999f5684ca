"""`python pipeline_job.py FILE`: `tiercel pipeline run FILE`, which tells the harness of two steps more."""

import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql import DataFrame

from spark_soak import gates
from spark_soak.steps import Step
from tiercel.cli import main
from tiercel.pipeline import running
from tiercel.pipeline.tables import data_files, delta, iceberg, parquet


class Runner(running.Runner):
    def write_batch(self, messages: DataFrame, batch: int) -> None:
        super().write_batch(messages, batch)
        gates.ask(os.environ[gates.LINE], Step.COMMITTED)


def write_files(*arguments: Any) -> list[data_files.DataFile]:
    files = data_files.write_files(*arguments)
    gates.ask(os.environ[gates.LINE], Step.WRITTEN)
    return files


if __name__ == "__main__":
    with patch.object(running, "Runner", Runner):
        for table in (delta, iceberg, parquet):
            patch.object(table, "write_files", write_files).start()
        sys.exit(main(["pipeline", "run", sys.argv[1]]))
