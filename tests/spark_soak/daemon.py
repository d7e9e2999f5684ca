"""`tiercel serve` as a real process, and the queues in it."""

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

import tiercel
from addresses import own_address
from pyspark_msmq.data_client import DataClient
from pyspark_msmq.options import read_write_options
from spark_soak.processes import PATIENCE_S, command, descendants, kill

ORDERS, COPIES = r".\private$\orders", r".\private$\copies"
_SIZE = 400


class Daemon:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "data"
        self._config = folder / "tiercel.toml"
        self._log = folder / "serve.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self.url = ""
        self.sent = 0
        with tiercel.open(self.data) as qm:
            qm.create_queue(ORDERS)
            qm.create_queue(COPIES, transactional=True)

    def start(self) -> None:
        self._config.write_text(
            f'[listen]\nport = 0\n[data]\nenabled = true\nhost = "{own_address()}"\nport = {self._port}\n'
            '[log]\nformat = "json"\n',
            "utf-8",
        )
        begin = self._log.stat().st_size if self._log.exists() else 0
        arguments = ("serve", "--data", str(self.data), "--config", str(self._config))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen((sys.executable, "-m", "tiercel", *arguments), stderr=log)  # noqa: S603
        self.url = self._address(begin)
        self._port = int(self.url.rpartition(":")[2])  # the same again after a kill

    def _address(self, begin: int) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with self._log.open("rb") as log:
                log.seek(begin)
                for line in log:
                    if b'"data_endpoint"' in line and line.endswith(b"\n"):
                        address: str = json.loads(line)["data_endpoint"]
                        return address
            assert self.is_alive, self._log.read_text("utf-8")[-2000:]
            assert time.monotonic() < deadline, "the queue manager does not start"
            time.sleep(0.05)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            kill([self._process.pid])
            self._process.wait()

    def kill_data_process(self) -> None:
        assert self._process is not None
        kill(pid for pid in descendants(self._process.pid) if "data_process" in command(pid))

    def stop(self) -> None:
        if self._process is not None and self.is_alive:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE_S)
            finally:
                self.kill()

    # What is in it.

    def send(self, count: int) -> None:
        """So many messages, all at once; it may be said again when the answer was lost."""
        numbers = range(self.sent, self.sent + count)
        stage = f"sender/{self.sent}/0/0"
        with self._client() as client:
            client.stage(stage, 0, _rows(numbers))
            client.publish("sender", str(self.sent), [stage], queue=ORDERS, transactional=False)
        self.sent += count

    def is_drained(self) -> bool:
        """Whether no message is left, neither visible nor claimed by anyone."""
        with self._client() as client:
            if client.head(ORDERS)["count"]:
                return False
            # In this order: what is not visible any more is claimed, or gone.
            return not any(claim["count"] for claim in client._get("/claims", {})["claims"])

    def stages(self) -> list[str]:
        with self._client() as client:
            return [stage["stage"] for stage in client._get("/stages", {})["stages"]]

    def copies(self) -> list[int]:
        """The messages of the other queue, in its order."""
        with self._client() as client:
            head = client.head(COPIES)
            query = {"queue": COPIES, "from": "queue", "lo": head["lo"], "hi": head["hi"], "columns": "body"}
            return [number_of(body) for batch in client.range(query) for body in _bodies(batch)]

    def check(self) -> str:
        """What `tiercel check` says of the store; it must be sound."""
        words = (sys.executable, "-m", "tiercel", "check", str(self.data))
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def _client(self) -> "closing[Any]":
        return closing(
            DataClient(read_write_options({"url": self.url, "queue": ORDERS}).endpoint, patience_s=PATIENCE_S)
        )


def body_of(number: int) -> bytes:
    return (b"%d:" % number).ljust(_SIZE, b"%c" % (65 + number % 26))


def number_of(body: bytes) -> int:
    """The number of a message that is whole; anything else is a mistake."""
    number = int(body.partition(b":")[0])
    assert body == body_of(number), f"message {number} came changed: {body[:40]!r}..."
    return number


def _rows(numbers: Iterable[int]) -> pa.Buffer:
    texts = {"body": [body_of(number) for number in numbers], "label": [str(number) for number in numbers]}
    batch = pa.RecordBatch.from_pydict(texts)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _bodies(batch: pa.RecordBatch) -> Iterator[bytes]:
    yield from batch.column("body").to_pylist()
