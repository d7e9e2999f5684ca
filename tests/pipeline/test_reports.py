"""Every report: the numbers against plain Python, a picture that is one, a page that is whole."""

from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.image import imread
from numpy import array_split
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from pipeline.synthetic import MACHINES, table
from tiercel.model.codes import MessageClass
from tiercel.pipeline.reports import (
    REPORTS,
    ReportError,
    age,
    dead_letters,
    end_to_end,
    make,
    senders,
    traffic,
)
from tiercel.pipeline.reports.times import axis_of, duration, whole_duration
from tiercel.pipeline.words import size_text

MESSAGES = table(2000)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(MESSAGES).persist()


class Page(HTMLParser):
    """What is open and never closed, and what is fetched from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "br"}:
            self.open.append(tag)
        self.fetched += [
            value or "" for name, value in attrs if name == "src" or (name == "href" and tag == "link")
        ]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_a_picture_and_a_page(name: str, rows: DataFrame, tmp_path: Path) -> None:
    made = make(name, rows, tmp_path)
    pixels = imread(made.png)
    assert pixels.shape[1] == 1650
    is_drawn = pixels[:, :, :3].min(axis=2) < 0.9
    assert 0.02 < is_drawn.mean() < 0.6, "something is drawn, and not everywhere"
    assert all(part.any() for part in array_split(is_drawn, 8)), "no band of the picture is empty"
    text = made.html.read_text("utf-8")
    page = Page(text)
    assert page.open == []
    assert page.fetched == []
    assert made.headline.replace("'", "&#x27;") in text
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{name}.html", f"{name}.png"]


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_a_table_without_messages(name: str, spark: SparkSession, tmp_path: Path) -> None:
    made = make(name, spark.createDataFrame(MESSAGES.slice(0, 0)), tmp_path)
    assert made.png.stat().st_size > 0
    assert "nothing to show" not in made.headline


def test_a_table_without_the_columns(rows: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"report traffic: the table has no column queue, class; it needs"):
        make("traffic", rows.drop("queue", "class"), tmp_path)


def test_rows_that_could_not_be_read_do_not_count(rows: DataFrame, tmp_path: Path) -> None:
    marked = rows.selectExpr("*", "if(class = 0, 'damaged', null) as decode_error")
    assert make("traffic", marked, tmp_path).headline.startswith(
        f"{MESSAGES.num_rows - 2000:,} messages to 2 queues"
    )


class TestNumbers:
    def test_traffic(self, rows: DataFrame) -> None:
        found = traffic.job(rows)
        counts = Counter(MESSAGES.column("queue").to_pylist())
        assert [(row[0], row[1]) for row in found.rows] == [
            (queue, f"{count:,}") for queue, count in counts.most_common()
        ]
        assert sum(map(sum, found.data.series.values())) == MESSAGES.num_rows
        assert set(found.data.latency) == {"orders", "invoices", "shipping", "stock", "audit"}

    def test_dead_letters(self, rows: DataFrame) -> None:
        classes = Counter(each for each in MESSAGES.column("class").to_pylist() if each & 0x8000)
        found = dead_letters.job(rows)
        assert {name: count for name, _, count in found.data.totals} == {
            reason.name.removeprefix("NACK_"): classes[reason] for reason in MessageClass if reason in classes
        }
        assert sum(map(sum, found.data.series.values())) == sum(classes.values())

    def test_age(self, rows: DataFrame) -> None:
        found = {name: bands for name, bands, _ in age.job(rows).data.queues}
        ages = [
            (each["landed_time"] - each["arrived_time"]).total_seconds()
            for each in MESSAGES.select(["queue", "landed_time", "arrived_time"]).to_pylist()
            if each["queue"].endswith("orders")
        ]
        assert sum(found["orders"]) == len(ages)
        assert found["orders"][0] == sum(each < 1 for each in ages)
        assert found["orders"][1] == sum(1 <= each < 10 for each in ages)

    def test_senders(self, rows: DataFrame) -> None:
        found = senders.job(rows)
        both = MESSAGES.select(["src_machine_id", "sender_id"]).to_pylist()
        most = Counter((each["src_machine_id"], each["sender_id"]) for each in both).most_common(1)[0][1]
        assert found.data[0].messages == most
        assert found.data[0].account == "not named"
        assert found.data[1].account.startswith("S-1-5-21-10-20-30-100")
        # By the hosts that their messages name for answers; the third names none, and keeps its GUID.
        assert {(each.guid, each.machine) for each in found.data} == {
            (str(MACHINES[0]), "web-1"),
            (str(MACHINES[1]), "web-2"),
            (str(MACHINES[2]), str(MACHINES[2])),
        }

    def test_a_name_that_two_computers_claim_is_none(self, rows: DataFrame) -> None:
        found = senders.job(rows.withColumn("resp_queue", lit(r"DIRECT=TCP:10.0.0.7\private$\a")))
        assert {each.machine for each in found.data} == set(map(str, MACHINES))

    def test_end_to_end(self, rows: DataFrame) -> None:
        times: dict[str, list[float]] = {}
        for each in MESSAGES.select(["class", "label", "sent_time"]).to_pylist():
            if each["class"] == MessageClass.REPORT:
                message = each["label"][:13]
                times.setdefault(message, []).append(int(each["sent_time"].timestamp()))
        found = end_to_end.job(rows)
        assert found.facts[0] == ("traced messages", f"{len(times):,}")
        assert found.facts[1] == (
            "the slowest",
            whole_duration(max(max(each) - min(each) for each in times.values())),
        )
        assert set(found.data.queues) == {"orders", "invoices", "shipping"}


def test_an_axis_has_neither_too_many_columns_nor_too_few() -> None:
    for span in (0, 1, 59, 3600, 86400, 40 * 86400, 5 * 365 * 86400):
        axis = axis_of(1_790_000_000, 1_790_000_000 + span)
        assert 12 <= len(axis.starts) <= 74, span
        assert axis.first <= 1_790_000_000
        assert axis.last + axis.width > 1_790_000_000 + span
        assert axis.first <= axis.since <= 1_790_000_000
        assert axis.until > 1_790_000_000 + span


def test_times_in_words() -> None:
    assert [duration(each) for each in (0, 0.25, 59, 90, 3600, 90_000, 400_000, 1e9)] == [
        "0 s", "0.25 s", "59 s", "1.5 min", "1 h", "25 h", "4.63 days", "31.7 years",
    ]  # fmt: skip
    assert [whole_duration(each) for each in (0, 1, 90)] == ["below 1 s", "1 s", "1.5 min"]


def test_sizes_in_words() -> None:
    assert [size_text(each) for each in (0, 312, 4300, 40_000, 3 << 20, 17 << 20, 5 << 40)] == [
        "0 bytes", "312 bytes", "4.2 KiB", "39 KiB", "3.0 MiB", "17 MiB", "5.0 TiB",
    ]  # fmt: skip
