"""Options: what is known, what is checked, and what is said of the rest."""

import json
from pathlib import Path

import pytest

from pyspark_msmq.endpoints import Url
from pyspark_msmq.options import (
    BatchOptions,
    OptionError,
    Position,
    StreamOptions,
    WriteOptions,
    names,
    read_any_options,
    read_batch_options,
    read_stream_options,
    read_write_options,
)

QUEUE = {"queue": r".\private$\orders"}
STREAM = {**QUEUE, "consumer": "spark"}


class TestKnown:
    def test_every_option_of_the_design(self) -> None:
        wanted = """url tokenFile tlsCa queue queuePattern from mode consumer startingPosition endingPosition
            maxMessagesPerTrigger maxBytesPerTrigger minMessagesPerTrigger maxTriggerDelay minPartitions
            maxMessagesPerPartition maxBytesPerPartition failOnDataLoss ackTiming pollTimeoutMs includeBody
            includeRaw labelLike
            class sentAfter sentBefore badMessageMode resumeConsumer txnAppId transactional maxBatchBytes"""
        known = {name for role in (BatchOptions, StreamOptions, WriteOptions) for name in names(role)}
        assert set(wanted.split()) <= known
        assert "path" not in known

    def test_defaults(self) -> None:
        read = read_stream_options(STREAM)
        assert read.url == Url("http", "127.0.0.1", 8802, None)
        assert (read.is_consuming, read.fail_on_data_loss, read.ack_timing) == (True, True, "eager")
        assert (read.poll_timeout_ms, read.max_trigger_delay, read.source) == (1000, 900.0, "queue")

    def test_spark_writes_names_in_small_letters(self) -> None:
        assert read_stream_options({**STREAM, "maxmessagespertrigger": "5"}).max_messages_per_trigger == 5


class TestUnknown:
    @pytest.mark.parametrize(
        ("name", "near"),
        [
            ("maxMessagesPerTriger", "maxMessagesPerTrigger"),
            ("failOnDatalos", "failOnDataLoss"),
            ("queues", "queue"),
            ("startingOffsets", "startingPosition"),
        ],
    )
    def test_the_nearest_one_is_named(self, name: str, near: str) -> None:
        with pytest.raises(OptionError, match=f"unknown option {name}; did you mean {near}\\?"):
            read_stream_options({**STREAM, name: "1"})

    def test_one_of_another_use(self) -> None:
        with pytest.raises(OptionError, match="consumer is for a stream read, but this is a batch read"):
            read_batch_options(STREAM)
        with pytest.raises(OptionError, match="txnAppId is for a write"):
            read_any_options({**QUEUE, "txnappid": "a"})

    def test_a_path(self) -> None:
        with pytest.raises(OptionError, match="has no path"):
            read_batch_options({"path": "orders"})


class TestValues:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("url", "ftp://host"),
            ("url", "http://host/path"),
            ("url", "http://host:port"),
            ("url", "http://user@host"),
            ("url", "msmq-rpc://user:password@host"),
            ("queue", "a,,b"),
            ("queue", "a,A"),
            ("from", "elsewhere"),
            ("consumer", "two words"),
            ("mode", "receive"),
            ("startingPosition", "yesterday"),
            ("minPartitions", "0"),
            ("maxMessagesPerTrigger", "many"),
            ("maxBytesPerTrigger", "1 zebibyte"),
            ("maxTriggerDelay", "soon"),
            ("failOnDataLoss", "perhaps"),
            ("ackTiming", "never"),
            ("pollTimeoutMs", "-1"),
            ("badMessageMode", "ignore"),
            ("sentAfter", "noon"),
            ("tokenFile", " "),
        ],
    )
    def test_wrong_ones_are_named(self, name: str, value: str) -> None:
        with pytest.raises(OptionError, match=f"^option {name}="):
            read_stream_options({**STREAM, name: value})

    @pytest.mark.parametrize(
        ("text", "queues"),
        [
            ("orders", (r".\private$\orders",)),
            (r"orders;retry, .\private$\b", (r".\private$\orders;retry", r".\private$\b")),
            (r"FormatName:DIRECT=OS:host\private$\q", (r"DIRECT=OS:host\private$\q",)),
        ],
    )
    def test_queues_by_any_name(self, text: str, queues: tuple[str, ...]) -> None:
        assert read_batch_options({"queue": text}).queue == queues
        if len(queues) == 1:
            assert read_write_options({"queue": text}).queue == queues[0]

    @pytest.mark.parametrize("text", [r"orders,.\private$\ORDERS", r"a,FormatName:DIRECT=OS:.\private$\a"])
    def test_one_queue_by_two_names(self, text: str) -> None:
        with pytest.raises(OptionError, match="has a queue twice"):
            read_batch_options({"queue": text})

    @pytest.mark.parametrize("text", ["", "./private$/b", "a=b"])
    def test_what_no_queue_is_called(self, text: str) -> None:
        with pytest.raises(OptionError, match=r"^option queue="):
            read_write_options({"queue": text})

    def test_a_class_that_is_none(self) -> None:
        with pytest.raises(OptionError, match="neither a number nor a class"):
            read_batch_options({**QUEUE, "class": "BEST"})

    @pytest.mark.parametrize(
        ("text", "position"),
        [
            ("Earliest", Position("earliest")),
            ("latest", Position("latest")),
            ("504403158265495553", Position("lookup_id", 504403158265495553)),
            ("2026-11-16T08:00:00Z", Position("time", 1794816000)),
            ("2026-11-16 08:00:00", Position("time", 1794816000)),
        ],
    )
    def test_positions(self, text: str, position: Position) -> None:
        assert read_batch_options({**QUEUE, "startingPosition": text}).starting_position == position

    @pytest.mark.parametrize(("text", "size"), [("1000", 1000), ("64k", 65536), ("2MB", 2 << 20)])
    def test_sizes(self, text: str, size: int) -> None:
        assert read_stream_options({**STREAM, "maxBytesPerTrigger": text}).max_bytes_per_trigger == size

    @pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("15m", 900), ("1d", 86400)])
    def test_times(self, text: str, seconds: float) -> None:
        assert read_stream_options({**STREAM, "maxTriggerDelay": text}).max_trigger_delay == seconds

    def test_a_user_of_a_domain(self) -> None:
        read = read_batch_options({**QUEUE, "url": "msmq-rpc://EXAMPLE%5Creader@host:2103"})
        assert read.url == Url("msmq-rpc", "host", 2103, r"EXAMPLE\reader")
        assert str(read.url) == "msmq-rpc://host:2103"

    def test_a_piece_that_the_queue_manager_would_refuse(self) -> None:
        with pytest.raises(OptionError, match="at most 15m"):
            read_write_options({"maxBatchBytes": "16m"})


class TestTogether:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({}, "missing queue"),
            ({**QUEUE, "queuePattern": "*"}, "use only one of these"),
            ({**QUEUE, "from": "deadletter"}, "belongs to the whole queue manager"),
            ({**QUEUE, "mode": "consume"}, "mode=consume is for streams"),
            ({**QUEUE, "endingPosition": "earliest"}, "would read nothing"),
            ({"from": "discards", "labelLike": "a"}, "not for from=discards"),
            ({"queue": "a,b", "url": "msmq-rpc://host"}, "reads one queue"),
            ({**QUEUE, "url": "msmq-rpc://host", "startingPosition": "latest"}, "from the first message"),
            ({**QUEUE, "url": "msmq-rpc://host", "endingPosition": "7"}, "to the last message"),
            ({**QUEUE, "url": "msmq-rpc://host", "includeRaw": "true"}, "packet"),
        ],
    )
    def test_what_a_batch_cannot(self, options: dict[str, str], words: str) -> None:
        with pytest.raises(OptionError, match=words):
            read_batch_options(options)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (QUEUE, "missing consumer, the name under which"),
            ({**STREAM, "labelLike": "a%"}, "would be removed unseen"),
            ({**STREAM, "mode": "browse"}, "consumer is for mode=consume"),
            ({**STREAM, "startingPosition": "latest"}, "startingPosition is for mode=browse"),
            ({**STREAM, "from": "outgoing"}, "belong to another computer"),
            ({"from": "discards", "consumer": "a"}, "for batch reads"),
            ({**QUEUE, "mode": "browse", "url": "msmq-rpc://host"}, "no browse streams"),
            ({**STREAM, "ackTiming": "commit", "url": "msmq-rpc://host"}, "only ackTiming=eager"),
            ({**STREAM, "from": "journal", "url": "msmq-rpc://host"}, "only from=queue"),
            ({**STREAM, "minMessagesPerTrigger": "5", "url": "msmq-rpc://host"}, "no message counts"),
        ],
    )
    def test_what_a_stream_cannot(self, options: dict[str, str], words: str) -> None:
        with pytest.raises(OptionError, match=words):
            read_stream_options(options)

    @pytest.mark.parametrize(
        ("options", "words"),
        [({"url": "msmq-rpc://host"}, "read-only"), ({"txnVersion": "1"}, "requires txnAppId")],
    )
    def test_what_a_write_cannot(self, options: dict[str, str], words: str) -> None:
        with pytest.raises(OptionError, match=words):
            read_write_options(options)


class TestSeveralQueueManagers:
    def test_a_list(self) -> None:
        read = read_stream_options({**STREAM, "url": "http://a:1, https://b:2", "tokenFile": "t"})
        assert [str(endpoint) for endpoint in read.endpoints] == ["http://a:1", "https://b:2"]
        assert [endpoint.token_file for endpoint in read.endpoints] == ["t", "t"]
        assert read.waits_for_managers
        assert not read_stream_options({**STREAM, "url": "http://a:1"}).waits_for_managers
        assert not read_stream_options(
            {**STREAM, "url": "http://a:1,http://b:1", "onUnreachable": "fail"}
        ).waits_for_managers

    def test_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "managers.toml"
        file.write_text(
            '[[manager]]\nurl = "https://a:1"\ntoken_file = "a.token"\ntls_ca = "/ca.pem"\n'
            '[[manager]]\nurl = "http://b:2"\ndrain = true\n'
        )
        a, b = read_stream_options({**STREAM, "url": f"@{file}", "tokenFile": "all"}).endpoints
        assert (a.token_file, a.tls_ca, a.drain) == (str(tmp_path / "a.token"), "/ca.pem", False)
        assert (b.token_file, b.tls_ca, b.drain) == ("all", None, True)

    def test_queues_of_their_own(self) -> None:
        entries = [
            {"url": "http://a:1", "queues": ["orders", "bills"]},
            {"url": "http://b:1", "queue_pattern": "private$\\shop-*"},
            {"url": "http://c:1"},
        ]
        read = read_stream_options({**STREAM, "url": json.dumps(entries)})
        a, b, c = (read.of(endpoint) for endpoint in read.endpoints)
        assert (a.queue, a.queue_pattern) == ((r".\private$\orders", r".\private$\bills"), None)
        assert (b.queue, b.queue_pattern) == (None, r"private$\shop-*")
        assert c.queue == read.queue
        only = read_stream_options({"consumer": "c", "url": json.dumps(entries[:1])})
        assert only.queue == a.queue

    @pytest.mark.parametrize(
        ("entry", "words"),
        [
            ({"queues": ["orders", r".\private$\orders"]}, "http://a:1: has a queue twice"),
            ({"queues": "orders"}, "entry 1: queues must be a list of queue names"),
            ({"queues": [7]}, "entry 1: queues must be a list of queue names"),
            ({"queues": ["a"], "queue_pattern": "b*"}, "use only one of these"),
            ({"token": "secret"}, "unknown key token; keys: url, token_file, tls_ca, drain, queues, queue_p"),
        ],
    )
    def test_entries_that_are_wrong(self, entry: dict[str, object], words: str) -> None:
        with pytest.raises(OptionError, match=words):
            read_stream_options({**STREAM, "url": json.dumps([{"url": "http://a:1"} | entry])})
        with pytest.raises(OptionError, match="is not valid JSON"):
            read_stream_options({**STREAM, "url": "[{"})
        with pytest.raises(OptionError, match="missing queue"):
            read_stream_options({"consumer": "c", "url": '[{"url": "http://a:1"}]'})

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "must have entries"),
            ("[[manager]]\n", "entry 1: url must be http://host:port"),
            ('[[manager]]\nurl = "http://a:1"\ntoken = "secret"\n', "unknown key token"),
            ("[[manager]]\nurl = 5\n", "url must be a string"),
            ('[[manager]]\nurl = "http://a:1"\ndrain = true\n', "without drain"),
            ("[[manager]\n", "is not valid TOML"),
            ('manager = ["a"]\n', "must be a table"),
        ],
    )
    def test_a_file_that_is_wrong(self, tmp_path: Path, text: str, words: str) -> None:
        file = tmp_path / "managers.toml"
        file.write_text(text)
        with pytest.raises(OptionError, match=words):
            read_stream_options({**STREAM, "url": f"@{file}"})

    def test_no_file(self) -> None:
        with pytest.raises(OptionError, match="cannot read missing"):
            read_stream_options({**STREAM, "url": "@missing.toml"})

    def test_too_many(self) -> None:
        url = ",".join(f"http://host:{port}" for port in range(1, 1002))
        with pytest.raises(OptionError, match="1001 queue managers, but a query reads at most 1000"):
            read_stream_options({**STREAM, "url": url})

    @pytest.mark.parametrize("url", ["http://a:1,http://a:1", "http://a:1,msmq-rpc://b", "http://a:1,"])
    def test_lists_that_are_wrong(self, url: str) -> None:
        with pytest.raises(OptionError, match="url"):
            read_stream_options({**STREAM, "url": url})

    def test_what_takes_only_one(self) -> None:
        two = {"url": "http://a:1,http://b:1", **QUEUE}
        with pytest.raises(OptionError, match="a query writes to one"):
            read_write_options(two)
        with pytest.raises(OptionError, match="mode=browse reads one queue manager"):
            read_stream_options({**two, "mode": "browse"})
