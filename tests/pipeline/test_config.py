"""pipeline.toml: what is right is read, what is wrong is one line that says so."""

import json
from pathlib import Path

import pytest

from tiercel.pipeline.config import load, parse
from tiercel.pipeline.tables import TableOptions
from tiercel.server.config import ConfigError

EXAMPLES = Path(__file__).parents[2] / "examples"
LEAST = """
[pipeline]
name = "orders"
[source]
queues = ['.\\private$\\orders']
[[table]]
format = "parquet"
path = "lake/orders"
"""


def test_the_least_that_is_needed() -> None:
    pipeline = parse(LEAST, Path("/shop"))
    assert pipeline.consumer == "orders"
    assert pipeline.state == Path("/shop/.orders")
    assert pipeline.pipeline.interval_s is None
    assert pipeline.tables[0].options.place == "/shop/lake/orders"
    assert pipeline.reader_options["queue"] == r".\private$\orders"
    assert pipeline.reader_options["badMessageMode"] == "column"
    assert "tokenFile" not in pipeline.reader_options
    assert {"body", "body_type", "decode_error"} <= set(pipeline.columns)


def test_several_queue_managers() -> None:
    one = parse(LEAST.replace("[source]", '[source]\nurl = "@managers.toml"'), Path("/shop"))
    assert one.reader_options["url"] == "@/shop/managers.toml"
    two = LEAST.replace("[source]", '[source]\nurl = "http://a:1,http://b:1"\non_unreachable = "fail"')
    assert parse(two, Path()).reader_options["url"] == "http://a:1,http://b:1"
    assert parse(two, Path()).reader_options["onUnreachable"] == "fail"
    bad = '[quarantine]\nformat = "parquet"\npath = "bad"\nqueue = "bad"\n'
    with pytest.raises(ConfigError, match="only with one queue manager"):
        parse(two + bad, Path())


TWO = """
[pipeline]
name = "orders"
[[source]]
url = "http://a:1,http://b:1"
token_file = "ab.token"
queues = ["orders"]
max_messages_per_trigger = 7
[[source]]
url = "@managers.toml"
queue_pattern = "bills-*"
tls_ca = "/ca.pem"
drain = true
[[table]]
format = "parquet"
path = "lake/orders"
"""


def test_several_sources(tmp_path: Path) -> None:
    (tmp_path / "managers.toml").write_text(
        '[[manager]]\nurl = "https://c:1"\n'
        '[[manager]]\nurl = "https://d:1"\nqueues = ["own"]\ntoken_file = "d.token"\n'
    )
    pipeline = parse(TWO, tmp_path)
    assert "queue" not in pipeline.reader_options
    assert pipeline.reader_options["maxMessagesPerTrigger"] == "7"
    assert pipeline.source.max_messages_per_trigger == 7
    assert pipeline.url == "http://a:1,http://b:1,@managers.toml"
    of_ab = {"token_file": str(tmp_path / "ab.token"), "queues": ["orders"]}
    of_cd = {"tls_ca": "/ca.pem", "drain": True}
    assert json.loads(pipeline.connection_options["url"]) == [
        {"url": "http://a:1", **of_ab},
        {"url": "http://b:1", **of_ab},
        {"url": "https://c:1", **of_cd, "queue_pattern": "bills-*"},
        {"url": "https://d:1", **of_cd, "queues": ["own"], "token_file": str(tmp_path / "d.token")},
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            '"@managers.toml"',
            '"http://b:1"',
            r"\[\[source\]\] url = 'http://b:1': is in two sources; name all",
        ),
        ("drain = true", "max_messages_per_trigger = 8", r"must be the same for all sources, not 7"),
        ("drain = true", "consume = true", r"\[\[source\]\] consume: unknown option; did you mean consumer"),
        ("[[source]]", "[[sources]]", r"\[sources\]: unknown section; did you mean source"),
    ],
)
def test_several_sources_that_do_not_fit(old: str, new: str, words: str) -> None:
    assert old in TWO
    with pytest.raises(ConfigError, match=words):
        parse(TWO.replace(old, new), Path("/shop"))


def test_one_of_several(tmp_path: Path) -> None:
    (tmp_path / "managers.toml").write_text('[[manager]]\nurl = "https://c:1"\n')
    pipeline = parse(TWO, tmp_path)
    assert pipeline.connection_to("http://b:1") == {
        "url": "http://b:1",
        "tokenFile": str(tmp_path / "ab.token"),
    }
    assert pipeline.connection_to("https://c:1") == {"url": "https://c:1", "tlsCa": "/ca.pem"}
    with pytest.raises(
        ConfigError, match="--via http://d:1: not a queue manager of the pipeline; known: http"
    ):
        pipeline.connection_to("http://d:1")


def test_no_file_of_queue_managers() -> None:
    with pytest.raises(
        ConfigError, match=r"\[\[source\]\] 2: url = '@managers.toml': cannot read /nowhere/man"
    ):
        parse(TWO, Path("/nowhere")).reader_options  # noqa: B018  # read when it is needed


def test_everything_that_can_be_said() -> None:
    pipeline = parse(
        """
        [pipeline]
        name = "shop"
        master = "spark://head:7077"
        state = "/var/lib/shop"
        trigger = "5m"
        [spark]
        "spark.executor.memory" = "4g"
        "spark.speculation" = true
        [source]
        url = "https://queues:8802"
        token_file = "token"
        queue_pattern = 'private$\\shop-*'
        from = "journal"
        consumer = "warehouse"
        columns = ["queue", "label", "arrived_time"]
        resume_consumer = true
        [decode]
        expect = "xml"
        [[table]]
        format = "delta"
        path = "lake/orders"
        partition_by = ["date", "queue"]
        sql = "select * from messages"
        [[table]]
        format = "postgresql"
        url = "postgresql://db/shop"
        name = "landed.orders"
        function = "shop.steps:totals"
        [quarantine]
        format = "duckdb"
        path = "bad.db"
        name = "bad"
        when = "label is null"
        queue = '.\\private$\\bad'
        """,
        Path("/shop"),
    )
    assert pipeline.pipeline.interval_s == 300
    assert pipeline.state == Path("/var/lib/shop")
    assert pipeline.spark == {"spark.executor.memory": "4g", "spark.speculation": "true"}
    assert pipeline.reader_options["tokenFile"] == "/shop/token"
    assert pipeline.reader_options["from"] == "journal"
    assert pipeline.reader_options["resumeConsumer"] == "true"
    assert pipeline.columns == ("queue", "label", "arrived_time", "body", "body_type", "decode_error")
    assert [str(each.options) for each in pipeline.tables] == [
        "delta:/shop/lake/orders",
        "postgresql://db/shop#landed.orders",
    ]
    assert pipeline.quarantine is not None
    assert pipeline.quarantine.options.place == "/shop/bad.db"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[source]", "[sources]", r"\[sources\]: unknown section; did you mean source\?"),
        ("queues =", "queue =", r"\[source\] queue: unknown option; did you mean queues\?"),
        ('name = "orders"', "", r"\[pipeline\] name: required"),
        ('name = "orders"', 'name = "a b"', r"1 to 64 letters, digits"),
        (
            'name = "orders"',
            'name = "orders"\ntrigger = "often"',
            r'trigger = .often.: must be once, or an interval such as "30s"',
        ),
        (
            'name = "orders"',
            'name = "orders"\nstate = "s3://bucket/state"',
            r"\[pipeline\] state = 's3://bucket/state': must be a folder.* only with jars",
        ),
        ('name = "orders"', 'name = "orders"\nstate = "dbfs:/state"', r"state = 'dbfs:/state': must be a"),
        ('name = "orders"', "name = 7", r"\[pipeline\] name = 7: must be a text in quotes"),
        ("[[table]]", "[table]", r"missing table: add a section \[\[table\]\]"),
        (
            '"parquet"',
            '"parket"',
            r"format = 'parket': must be parquet or delta or iceberg or postgresql or duckdb",
        ),
        ('"parquet"', '"postgresql"', r"\[table\] url: required for postgresql"),
        ('"parquet"', '"iceberg"', r"iceberg requires a name such as orders or shop.orders"),
        ('"lake/orders"', '"hdfs://lake/orders"', r"must be a folder .*, or a URL of s3, gs, abfss"),
        (
            '"lake/orders"',
            '"s3://lake/orders"',
            r"parquet cannot commit on an object store; use delta or ice",
        ),
        (
            '"lake/orders"',
            '"x"\nsql = "select 1"\nfunction = "a:b"',
            r"sql, function: use only one of these",
        ),
        ('"lake/orders"', '"x"\nfunction = "a.b"', r'must have the form "module:name"'),
        ('"lake/orders"', '"x"\ntarget_file_mib = 0', r"target_file_mib = 0: must be 1 to 4096"),
        ("[source]", "[source]\nmax_messages_per_trigger = 0", r"must be 1 to 10000000"),
        ("[source]", '[source]\ncolumns = ["lable"]', r"\[source\] columns: .*label"),
        ("[source]", '[spark]\nmemory = "1g"\n[source]', r"must be a Spark option"),
        (
            "[source]",
            '[quarantine]\nformat = "parquet"\npath = "lake/orders"\n[source]',
            r"two sections have the same table",
        ),
        (
            "[source]",
            '[quarantine]\nformat = "parquet"\npath = "q"\nsql = "x"\n[source]',
            r"stored unchanged",
        ),
        ("[source]", "[source", r"not valid TOML"),
    ],
)
def test_a_mistake_is_one_line(old: str, new: str, words: str) -> None:
    assert old in LEAST
    with pytest.raises(ConfigError, match=words) as caught:
        parse(LEAST.replace(old, new), Path("/shop"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["lake/orders", "./lake//orders/", "/shop/lake/raw/../orders"])
def test_one_table_under_two_names(path: str) -> None:
    """Each batch would be there already for the second, and its rows dropped."""
    with pytest.raises(ConfigError, match="two sections have the same table"):
        parse(f'{LEAST}\n[quarantine]\nformat = "parquet"\npath = "{path}"', Path("/shop"))


def test_a_file_names_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.toml: cannot read the file"):
        load(tmp_path / "none.toml")
    path = tmp_path / "pipeline.toml"
    path.write_text("[pipeline]\n")
    with pytest.raises(ConfigError, match=r"pipeline.toml: \[pipeline\] name: required"):
        load(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not valid UTF-8"):
        load(path)


def test_the_example_is_right() -> None:
    assert load(EXAMPLES / "pipeline.toml").pipeline.name == "orders"


def test_tables_on_object_stores(tmp_path: Path) -> None:
    head = '[pipeline]\nname = "a"\n[[table]]\n'
    made = parse(f'{head}format = "delta"\npath = "abfss://c@a.dfs.core.windows.net/lake"\n', tmp_path)
    assert made.tables[0].options.place == "abfss://c@a.dfs.core.windows.net/lake"
    lake = 'format = "iceberg"\npath = "s3://bucket/lake"\nname = "orders"\n'
    with pytest.raises(ConfigError, match="an object store cannot hold the catalog; set catalog"):
        parse(f"{head}{lake}", tmp_path)
    assert parse(f'{head}{lake}catalog = "glue"\n', tmp_path).tables[0].options.catalog == "glue"
    both = f'{head}format = "delta"\npath = "s3://b/x"\n[[table]]\nformat = "delta"\npath = "s3://b/x/"\n'
    with pytest.raises(ConfigError, match="two sections have the same table"):
        parse(both, tmp_path)
    place = TableOptions.parse("delta:s3://bucket/lake").under(tmp_path)
    assert (place.format, place.place) == ("delta", "s3://bucket/lake")
