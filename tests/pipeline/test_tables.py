"""Every kind of table takes a batch once: again, in pieces, after a death at each step, beside another
driver.
"""

import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tiercel.pipeline.tables import Table, TableError, TableOptions, open_table
from tiercel.pipeline.tables.data_files import join_files
from tiercel.pipeline.tables.parquet import ParquetTable
from tiercel.pipeline.tables.postgresql import PostgreSqlTable
from tiercel.pipeline.tables.table import FORMATS

FILES = ("parquet", "delta", "iceberg")

Make = Callable[..., Table]


@pytest.fixture(params=sorted(FORMATS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Make:
    """The same table, opened anew, as another process would."""
    place = str(tmp_path / "table") if kind != "postgresql" else request.getfixturevalue("postgresql")
    name = f"t{abs(hash(str(tmp_path)))}" if kind in {"postgresql", "duckdb", "iceberg"} else ""

    def open_again(partition_by: tuple[str, ...] = ()) -> Table:
        return open_table(TableOptions(format=kind, place=place, name=name, partition_by=partition_by))

    return open_again


def rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    numbers = spark.range(first, last, 1, 2)
    return numbers.selectExpr(
        "id as number",
        "case when id % 7 = 0 then null else concat('order ', id) end as label",
        "cast(id % 8 as tinyint) as priority",
        "cast(concat('body ', id) as binary) as body",
        "timestamp'2026-08-01 12:00:00' + make_interval(0, 0, 0, cast(id % 3 as int)) as sent",
        "array('a', string(id)) as tags",
    )


def numbers(table: Table, spark: SparkSession) -> list[int]:
    return sorted(row.number for row in table.read(spark).select("number").collect())


class TestExactlyOnce:
    def test_each_batch_is_in_the_table_once(self, spark: SparkSession, make: Make) -> None:
        assert make().applied("app") == -1
        assert make().write(rows(spark, 0, 20), {"app": 0}).rows == 20
        assert make().write(rows(spark, 20, 30), {"app": 1}).rows == 10
        assert make().write(rows(spark, 20, 30), {"app": 1}).already
        assert make().write(rows(spark, 0, 20), {"app": 0}).already
        assert not make().write(rows(spark, 30, 40), {"another": 1}).already
        assert make().applied("app") == 1
        found = {row.number: row for row in make().read(spark).collect()}
        assert make().read(spark).count() == len(found) == 40
        for row in rows(spark, 0, 40).collect():
            assert found[row.number].label == row.label
            assert found[row.number].priority == row.priority
            assert bytes(found[row.number].body) == bytes(row.body)
            assert found[row.number].sent == row.sent

    def test_a_batch_without_rows(self, spark: SparkSession, make: Make) -> None:
        assert make().write(rows(spark, 0, 0), {"app": 0}).rows == 0
        make().write(rows(spark, 0, 5), {"app": 1})
        assert numbers(make(), spark) == list(range(5))

    def test_the_loser_of_a_race_adds_nothing(self, spark: SparkSession, make: Make) -> None:
        """Two drivers with one checkpoint: the second commits while the first is about to write."""
        batch = rows(spark, 0, 10).drop("priority")
        late = Late(batch, lambda: make().write(batch, {"app": 0}))
        assert make().write(cast("DataFrame", late), {"app": 0}).already
        assert numbers(make(), spark) == list(range(10))

    @pytest.mark.parametrize(
        ("kind", "last_moment"),
        [("delta", "delta.Transaction"), ("iceberg", "iceberg.IcebergTable._commit")],
    )
    @pytest.mark.parametrize("other", ["app", "another"])
    def test_not_even_at_the_last_moment(
        self, spark: SparkSession, make: Make, monkeypatch: pytest.MonkeyPatch, last_moment: str, other: str
    ) -> None:
        """The second commits when the first has looked at the marks already."""
        name = f"tiercel.pipeline.tables.{last_moment}"
        commit = resolve_name(name)

        def late(*arguments: Any) -> Any:
            monkeypatch.setattr(name, commit)
            make().write(rows(spark, 0, 10), {other: 0})
            return commit(*arguments)

        make().write(rows(spark, 10, 20), {"before": 0})
        monkeypatch.setattr(name, late)
        assert make().write(rows(spark, 0, 10), {"app": 0}).already is (other == "app")
        assert numbers(make(), spark) == sorted([*range(20), *([] if other == "app" else range(10))])

    def test_a_part_that_another_run_has_added(self, spark: SparkSession, make: Make) -> None:
        """Several captures in one step, one of which is there by then."""
        batch = rows(spark, 0, 10).drop("priority")
        late = Late(batch, lambda: make().write(batch, {"one": 0}))
        with pytest.raises(TableError, match="run it again"):
            make().write(cast("DataFrame", late), {"one": 0, "two": 0})
        assert numbers(make(), spark) == list(range(10))

    @pytest.mark.parametrize("kind", ["postgresql"])
    def test_a_server_that_crashed_in_between(
        self, spark: SparkSession, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """PostgreSQL comes back with unlogged tables that are empty."""
        move = PostgreSqlTable._move

        def crash_and_move(table: PostgreSqlTable, stages: list[str], *rest: Any) -> bool:
            with table._connect() as connection:
                connection.execute(f"truncate {stages[0]}".encode())
            return move(table, stages, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(PostgreSqlTable, "_move", crash_and_move)
            with pytest.raises(TableError, match="10 rows were staged"):
                make().write(rows(spark, 0, 10), {"app": 0})
        assert make().write(rows(spark, 0, 10), {"app": 0}).rows == 10
        assert numbers(make(), spark) == list(range(10))


def test_rows_are_removed_by_message_id(spark: SparkSession, make: Make) -> None:
    assert make().remove(["a"]) == 0
    for batch in range(2):
        some = rows(spark, 10 * batch, 10 * batch + 10).drop("priority")
        make().write(some.selectExpr("*", r"concat('{x}\\', number) as message_id"), {"app": batch})
    assert make().remove([]) == 0
    gone = {3, 12, 13, *range(5, 10)}
    assert make().remove([rf"{{x}}\{each}" for each in (*gone, 77)]) == len(gone)
    assert numbers(make(), spark) == sorted(set(range(20)) - gone)
    assert make().applied("app") == 1


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_queries_skip_files_by_their_statistics(spark: SparkSession, make: Make, kind: str) -> None:
    for batch in range(3):
        some = rows(spark, 10 * batch, 10 * batch + 10).coalesce(1).selectExpr(
            "*", "cast(number as decimal(9, 2)) as price", "cast(sent as date) as day", "null as nothing",
            "cast('nan' as double) as rate", "repeat('x', 70) as long",
        )  # fmt: skip
        make().write(some.drop("priority", "nothing"), {"app": batch})
    if kind == "delta":
        table = DeltaTable(make().options.place)
        some_of = list(table.to_pyarrow_dataset().get_fragments(filter=ds.field("number") > 25))
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        last = max(actions, key=lambda each: each["min.number"])
        assert (last["min.number"], last["max.number"], last["null_count.label"]) == (20, 29, 2)
        assert (last["min.label"], last["max.label"]) == ("order 20", "order 29")
        assert last["max.sent"].isoformat() == "2026-08-03T12:00:00+00:00"
        assert (last["min.price"], last["max.price"]) == (Decimal(20), Decimal(29))
        assert last["max.day"].isoformat() == "2026-08-03"
        assert last.get("max.rate") is None
        assert last.get("max.long") is None
        assert len(table.to_pyarrow_table(filters=[("label", "=", "order 11")])) == 1
    else:
        loaded = make()._load()  # type: ignore[attr-defined]
        some_of = list(loaded.scan(row_filter="number > 25").plan_files())
    assert len(some_of) == 1


class Late:
    """Rows before whose first use something else happens."""

    def __init__(self, rows: DataFrame, before: Callable[[], object]) -> None:
        self._rows = rows
        self._before = before

    def __getattr__(self, name: str) -> Any:
        if name == "mapInArrow":
            self._before()
        return getattr(self._rows, name)


class TestColumns:
    def test_a_column_may_be_new_and_keeps_its_type(self, spark: SparkSession, make: Make) -> None:
        make().write(rows(spark, 0, 5), {"app": 0})
        make().write(rows(spark, 5, 10).selectExpr("*", "'new' as colour"), {"app": 1})
        changed = rows(spark, 10, 15).selectExpr("cast(number as string) as number", "label")
        with pytest.raises(TableError, match=r"column number is .* in the table and .* in the batch"):
            make().write(changed, {"app": 2})
        colours = {row.number: row.colour for row in make().read(spark).select("number", "colour").collect()}
        assert colours == {number: None if number < 5 else "new" for number in range(10)}

    def wide(self, spark: SparkSession, first: int, *kinds: str) -> DataFrame:
        names = ("number", "rate", "price")
        casts = [f"cast(id as {kind}) as {name}" for name, kind in zip(names, kinds, strict=True)]
        return spark.range(first, first + 3, 1, 1).selectExpr(*casts)

    def test_a_type_may_become_wider(self, spark: SparkSession, make: Make, kind: str) -> None:
        narrow = self.wide(spark, 0, "int", "float", "decimal(9, 2)")
        wide = self.wide(spark, 1 << 40, "bigint", "double", "decimal(18, 2)")
        assert str(make().changes(narrow)) == ""
        make().write(narrow, {"app": 0})
        assert str(make().changes(narrow)) == ""
        if kind == "delta":
            with pytest.raises(
                TableError, match="number is int and cannot become bigint: delta has no wider"
            ):
                make().changes(wide)
            return
        found = "number (bigint), rate (double)" + ", price (decimal(18,2))" * (kind != "postgresql")
        assert (
            str(make().changes(wide.selectExpr("*", "1 as colour"))) == f"new columns colour; wider {found}"
        )
        make().write(wide, {"app": 1})
        for batch in (2, 3):  # small files to merge, of both types
            make().write(self.wide(spark, 10 * batch, "bigint", "double", "decimal(18, 2)"), {"app": batch})
        for _ in range(2):
            rows = {row.number: row for row in make().read(spark).collect()}
            assert sorted(rows) == [0, 1, 2, 20, 21, 22, 30, 31, 32, *range(1 << 40, (1 << 40) + 3)]
            assert all(each.rate == each.number == each.price for each in rows.values())
            make().compact()
        with pytest.raises(
            TableError, match="number is bigint in the table, and int is narrower; keep bigint"
        ):
            make().changes(narrow)
        with pytest.raises(TableError, match="is narrower"):
            make().write(narrow, {"app": 4})

    def test_members_of_a_struct(self, spark: SparkSession, make: Make, kind: str) -> None:
        make().write(spark.sql("select 1 as a, named_struct('x', 1) as value"), {"app": 0})
        more = spark.sql("select 1 as a, named_struct('x', 1, 'y', 2) as value")
        if kind == "postgresql":  # JSON
            assert str(make().changes(more)) == ""
            return
        with pytest.raises(TableError, match=r"members of column value have changed.*select them as columns"):
            make().changes(more)


@pytest.mark.parametrize("kind", FILES)
class TestPartitions:
    def by_day(self, spark: SparkSession, first: int, last: int) -> DataFrame:
        queue = r"case when number % 2 = 0 then '.\\private$\\a=b c' when number % 3 = 0 then '007' end"
        return rows(spark, first, last).selectExpr("*", "to_date(sent) as date", f"{queue} as queue")

    def test_rows_are_kept_by_day_and_queue(self, spark: SparkSession, make: Make) -> None:
        table = make(("date", "queue"))
        table.write(self.by_day(spark, 0, 30), {"app": 0})
        table.write(self.by_day(spark, 30, 60), {"app": 1})
        found = {row.number: row for row in table.read(spark).collect()}
        assert sorted(found) == list(range(60))
        for row in self.by_day(spark, 0, 60).collect():
            assert found[row.number].date == row.date
            assert found[row.number].queue == row.queue

    def test_other_partitions_are_refused(self, spark: SparkSession, make: Make) -> None:
        make(("date",)).write(self.by_day(spark, 0, 5), {"app": 0})
        with pytest.raises(TableError, match="partitioned by"):
            make(("queue",)).write(self.by_day(spark, 5, 10), {"app": 1})

    def test_they_keep_their_types(self, spark: SparkSession, make: Make) -> None:
        make(("part",)).write(spark.range(3).selectExpr("id", "cast(id as int) as part"), {"app": 0})
        with pytest.raises(
            TableError, match="part is int and partitions the table, so it cannot become bigin"
        ):
            make(("part",)).changes(spark.range(3).selectExpr("id", "id as part"))


@pytest.mark.parametrize("kind", FILES)
class TestCompaction:
    def test_small_files_become_few_and_rows_stay(self, spark: SparkSession, make: Make) -> None:
        table = make(("priority",))
        for batch in range(2):
            table.write(rows(spark, batch * 32, batch * 32 + 32), {"app": batch})
        done = make(("priority",)).compact()
        assert done.before > 8
        assert done.after == 8
        assert numbers(make(), spark) == list(range(64))
        assert make().applied("app") == 1
        assert make(("priority",)).compact().before == 0


class TestParquetForStrangers:
    """Readers that know nothing of the protocol see each row once, at every moment."""

    @pytest.fixture
    def options(self, tmp_path: Path) -> TableOptions:
        return TableOptions(format="parquet", place=str(tmp_path / "table"), partition_by=("priority",))

    def seen(self, options: TableOptions) -> Iterator[int]:
        folder = options.place
        if not any(Path(folder).glob("**/*.parquet")):
            return iter(())
        arrow = (
            ds.dataset(folder, partitioning="hive").to_table(columns=["number"]).column("number").to_pylist()
        )
        query = "select number from read_parquet(? || '/**/*.parquet', hive_partitioning = true)"
        duck = [number for (number,) in duckdb.connect().execute(query, [folder]).fetchall()]
        assert sorted(arrow) == sorted(duck)
        return iter(sorted(arrow))

    def test_a_death_before_the_commit_leaves_nothing(
        self, spark: SparkSession, options: TableOptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = open_table(options)
        with monkeypatch.context() as patch:
            patch.setattr(type(table), "_commit", _die)
            with pytest.raises(Died):
                table.write(rows(spark, 0, 20), {"app": 0})
        assert list(self.seen(options)) == []
        assert open_table(options).write(rows(spark, 0, 20), {"app": 0}).rows == 20
        assert list(self.seen(options)) == list(range(20))

    def test_a_death_between_the_renames_is_completed(
        self, spark: SparkSession, options: TableOptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = open_table(options)
        left = iter(range(6))
        real = Path.replace

        def replace(self: Path, target: Path) -> Path:
            if self.suffix == ".pending" and next(left, None) is None:
                raise Died
            return real(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replace)
            with pytest.raises(Died):
                table.write(rows(spark, 0, 20), {"app": 0})
        some = list(self.seen(options))
        assert 0 < len(some) < 20
        assert len(some) == len(set(some))
        assert open_table(options).write(rows(spark, 0, 20), {"app": 0}).already
        assert list(self.seen(options)) == list(range(20))

    def test_what_is_committed_is_no_orphan(
        self, spark: SparkSession, options: TableOptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(ParquetTable, "_complete", lambda _table, state: _die() if state.renames else None)
            with pytest.raises(Died):
                open_table(options).write(rows(spark, 0, 20), {"app": 0})
        for path in Path(options.place).glob("**/*.pending"):
            os.utime(path, (0, 0))
        assert open_table(options).compact().removed == 0
        assert list(self.seen(options)) == list(range(20))

    def test_only_one_compacts(
        self, spark: SparkSession, options: TableOptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for batch in range(2):
            open_table(options).write(rows(spark, batch * 16, batch * 16 + 16), {"app": batch})

        def join_beside_another(*arguments: Any) -> int:
            with pytest.raises(TableError, match="another process is compacting it"):
                open_table(options).compact()
            return join_files(*arguments)

        monkeypatch.setattr("tiercel.pipeline.tables.parquet.join_files", join_beside_another)
        assert open_table(options).compact().after == 8
        assert list(self.seen(options)) == list(range(32))


class Died(BaseException):
    """What a kill looks like from inside: nothing catches it."""


def _die(*_: object) -> None:
    raise Died


class TestDuckDb:
    @pytest.mark.parametrize("kind", ["duckdb"])
    def test_what_a_killed_driver_left_is_removed_after_a_day(
        self, spark: SparkSession, make: Make, tmp_path: Path
    ) -> None:
        old, fresh = tmp_path / ".table-old", tmp_path / ".table-fresh"
        for folder in (old, fresh):
            folder.mkdir()
            (folder / "part.parquet").touch()
        os.utime(old, (0, 0))
        make().write(rows(spark, 0, 5), {"app": 0})
        assert (old.exists(), fresh.exists()) == (False, True)
        assert numbers(make(), spark) == list(range(5))


@pytest.mark.parametrize("catalog", ["hive", "name:none", "http://127.0.0.1:9/iceberg"])
def test_a_catalog_that_cannot_be_opened(catalog: str) -> None:
    """A plan says so, in one error of ours; every kind of catalog has others."""
    options = TableOptions(format="iceberg", place="s3://bucket/lake", name="t", catalog=catalog)
    with pytest.raises(TableError, match=r"^iceberg:s3://bucket/lake#t: cannot open the catalog \("):
        open_table(options).applied("app")
