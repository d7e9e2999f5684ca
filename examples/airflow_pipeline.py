"""A DAG for Apache Airflow 3: load the queues every 15 minutes, compact the tables every night.

Copy it into Airflow's folder of DAGs. The worker needs `pip install 'tiercel[pipeline,lineage]'` and the
pipeline's folder, named by TIERCEL_PIPELINES (default: /srv/pipelines).

A run that Airflow kills or repeats does no harm: tables that have a batch skip it. `max_active_runs=1`, and
the pool of one slot that both DAGs share, keep a compaction and a run apart.
"""

import os
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

FOLDER = os.environ.get("TIERCEL_PIPELINES", "/srv/pipelines")
START = datetime(2026, 1, 1, tzinfo=UTC)
# airflow pools set orders 1 "one at a time: run and compact"
POOL = "orders"

with DAG("orders", schedule="*/15 * * * *", start_date=START, catchup=False, max_active_runs=1) as load:
    plan = BashOperator(
        task_id="plan",  # fails before a message is taken if the file or a table does not fit
        bash_command="tiercel pipeline plan pipeline.toml",
        cwd=FOLDER,
    )
    run = BashOperator(
        task_id="run",
        bash_command="tiercel pipeline run pipeline.toml",
        cwd=FOLDER,
        pool=POOL,
        retries=3,
        retry_delay=timedelta(minutes=1),
        execution_timeout=timedelta(minutes=14),
    )
    plan >> run

with DAG(
    "orders_nightly", schedule="30 2 * * *", start_date=START, catchup=False, max_active_runs=1
) as nightly:
    compact = BashOperator(
        task_id="compact",
        bash_command="tiercel pipeline compact pipeline.toml",
        cwd=FOLDER,
        pool=POOL,
    )
    report = BashOperator(
        task_id="report",
        bash_command="tiercel pipeline report all --table parquet:lake/messages --out reports/{{ ds }}",
        cwd=FOLDER,
    )
    compact >> report
