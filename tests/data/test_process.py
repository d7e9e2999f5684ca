"""The life of the data process: killed and started again, and never longer than its daemon."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from http.client import IncompleteRead
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import tiercel
from data.served import PATIENCE_S, Served, serving, until
from tiercel.cli import main

QUEUE = r".\private$\orders"
COUNT = 12_000
LAST = 2**56 - 1


def prepare(manager: tiercel.EmbeddedQueueManager) -> None:
    queue = manager.create_queue(QUEUE)
    with manager.batch():
        for number in range(COUNT):
            queue.send(tiercel.Message(b"x" * 2000, label=f"{number}", delivery=1))


def prepare_empty(manager: tiercel.EmbeddedQueueManager) -> None:
    manager.create_queue(QUEUE)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class TestKilled:
    def test_a_reader_sees_a_broken_stream_and_asks_again(self, tmp_path: Path) -> None:
        with serving(tmp_path, prepare) as served:
            claim = _claim(served)
            query: dict[str, Any] = {
                "queue": QUEUE,
                "consumer": "c",
                "lo": 0,
                "hi": claim,
                "columns": "label,body",
            }
            whole = served.read(**query)
            # What the kernel has is heard after the end of the process as well: so it may have little.
            with served.asked("GET", "/range", buffer_bytes=1 << 16, **query) as response:
                stream = pa.ipc.open_stream(response)
                first = stream.read_next_batch()
                os.kill(served.data_pid, signal.SIGKILL)
                with pytest.raises((IncompleteRead, OSError, pa.ArrowInvalid)):
                    stream.read_all()
            assert whole.slice(0, first.num_rows).equals(pa.Table.from_batches([first]))
            assert served.read(**query).equals(whole)  # waits until the next data process is there
            assert served.event("data_process_ended")["code"] == -signal.SIGKILL
            assert served.get("/queues").status == 200

    def test_again_and_again(self, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            for number in range(2):
                assert served.get("/queues").status == 200
                os.kill(served.data_pid, signal.SIGKILL)
                served.event("data_process_started", number + 1)
            assert served.get("/queues").status == 200

    def test_one_of_two(self, tmp_path: Path) -> None:
        with serving(tmp_path, options="port = 0\nprocesses = 2") as served:
            pids = [served.event("data_process_started", number)["pid"] for number in range(2)]
            os.kill(pids[0], signal.SIGKILL)
            assert served.get("/queues").status == 200
            served.event("data_process_started", 2)
            assert is_running(pids[1])


class TestConnectionsThatAreTurnedAway:
    def test_are_counted_by_the_daemon_however_often_the_process_dies(self, tmp_path: Path) -> None:
        with serving(tmp_path, options="port = 0\nprocesses = 1\nconnections = 1") as served:
            with served.connect(), served.connect():
                until(lambda: turned_away(tmp_path) > 0)
            before = turned_away(tmp_path)
            os.kill(served.data_pid, signal.SIGKILL)
            served.event("data_process_started", 1)
            assert turned_away(tmp_path) >= before
            with served.connect(), served.connect():
                until(lambda: turned_away(tmp_path) > before)


def turned_away(folder: Path) -> float:
    """As the metrics of the daemon tell."""
    transport = httpx.HTTPTransport(uds=str(folder / "data" / "tiercel.sock"))
    with httpx.Client(transport=transport, base_url="http://local", timeout=PATIENCE_S) as client:
        text = client.get("/metrics").text
    found = re.search(r'tiercel_connections_turned_away_total\{interface="data"\} (\S+)', text)
    assert found is not None, text
    return float(found[1])


def _claim(served: Served) -> int:
    epoch = served.post("/consumers/c/attach", queues=[QUEUE])["epoch"]
    hi: int = served.post("/consumers/c/claim", epoch=epoch, queue=QUEUE, start=0)["hi"]
    assert hi == COUNT
    return hi


class TestEnd:
    @pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
    def test_of_the_daemon_is_the_end_of_the_data_process(self, tmp_path: Path, how: signal.Signals) -> None:
        with serving(tmp_path, prepare) as served:
            assert served.get("/queues").status == 200
            pid = served.data_pid
            with served.asked("GET", "/range", queue=QUEUE, lo=0, hi=LAST) as response:
                response.read(1000)  # a client that never ends
                served.process.send_signal(how)
                assert served.process.wait(PATIENCE_S) == (0 if how is signal.SIGTERM else -how)
                until(lambda: not is_running(pid))
        port = served.url.port
        with serving(tmp_path, options=f"port = {port}") as again:  # the port is free at once
            assert again.url.port == port
            assert again.get("/head", queue=QUEUE)["count"] == COUNT

    def test_a_wait_does_not_keep_the_daemon(self, tmp_path: Path) -> None:
        with serving(tmp_path, prepare_empty) as served:
            epoch = served.post("/consumers/c/attach", queues=[QUEUE])["epoch"]
            waiting = threading.Thread(
                target=_wait_in_vain, args=(served, {"epoch": epoch, "queue": QUEUE, "wait_ms": 60_000})
            )
            waiting.start()
            waiting.join(0.3)
            served.process.terminate()
            assert served.process.wait(PATIENCE_S) == 0
            waiting.join()


def _wait_in_vain(served: Served, body: dict[str, object]) -> None:
    with suppress(OSError):  # the data process may be the first to go
        served.post("/consumers/c/claim", **body)


class TestUnixSocket:
    def test_is_its_owners_alone(self, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            unix_socket = tmp_path / "data" / "tiercel.sock"
            assert stat.S_IMODE(unix_socket.stat().st_mode) == 0o600
            served.process.terminate()
            served.process.wait(PATIENCE_S)
            assert not unix_socket.exists()

    def test_of_a_long_path(self, tmp_path: Path) -> None:
        folder = tmp_path / ("deep" * 40)
        folder.mkdir()
        with serving(folder) as served:
            assert served.get("/queues").status == 200


class TestStart:
    def refused(self, capfd: pytest.CaptureFixture[str], tmp_path: Path, options: str) -> tuple[int, str]:
        file = tmp_path / "tiercel.toml"
        file.write_text(f"[data]\nenabled = true\n{options}\n", "utf-8")
        code = main(["serve", "--data", str(tmp_path / "data"), "--config", str(file), "--listen", ":0"])
        _, err = capfd.readouterr()
        lines = [line for line in err.splitlines() if not line.startswith("time=")]
        assert len(lines) == 1
        return code, lines[0]

    def test_without_the_extra(self, tmp_path: Path) -> None:
        file = tmp_path / "tiercel.toml"
        file.write_text("[data]\nenabled = true\n", "utf-8")
        program = "import sys; sys.modules['pyarrow'] = None; from tiercel.cli import main; sys.exit(main())"
        done = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", program, "serve", "--data", tmp_path / "data", "--config", file],
            capture_output=True,
            text=True,
            check=False,
        )
        line = "[data] enabled = true: pyarrow is not installed; run pip install 'tiercel[data]'"
        assert (done.returncode, done.stderr) == (2, f"tiercel serve: {line}\n")

    def test_where_others_listen(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, line = self.refused(capfd, tmp_path, f"port = {port}")
        assert code == 69
        assert f"cannot listen on 127.0.0.1:{port}: the port is in use" in line
        assert "choose another in the configuration" in line

    def test_with_a_certificate_that_is_none(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "c.pem").write_text("nix")
        options = f'tls_certificate = "{tmp_path}/c.pem"\ntls_key = "{tmp_path}/k.pem"'
        code, line = self.refused(capfd, tmp_path, options)
        assert code == 2
        assert "k.pem: cannot be used (" in line

    def test_for_all_without_tokens(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        code, line = self.refused(capfd, tmp_path, 'host = "0.0.0.0"')
        assert code == 2
        assert "without tokens it must be a loopback address" in line


def test_in_the_library(tmp_path: Path) -> None:
    program = f"""
import asyncio, json, urllib.request, tiercel, tiercel.aio
from tiercel.server.config import Config, DataOptions, ListenOptions
async def main():
    config = Config(data=DataOptions(enabled=True, port=0), listen=ListenOptions(port=0))
    async with await tiercel.aio.open({str(tmp_path / "data")!r}, config=config) as manager:
        await manager.create_queue({QUEUE!r})
        url = manager.data_endpoint + "/data/v1/queues"
        answer = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read())
        print(answer.decode())
asyncio.run(main())
"""
    done = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert [row["count"] for row in json.loads(done.stdout)["queues"]] == [0]
