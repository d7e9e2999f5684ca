"""`tiercel serve` as a process: how it starts, stops, reloads, and what it says when it cannot."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

import tiercel
from certificates import Authority
from tiercel.cli import main
from tiercel.store import Keyspace
from tiercel.store.lmdb_files import FORMAT_KEY
from tiercel.store.lmdb_store import LmdbStore

PATIENCE_S = 60  # only a test that fails waits that long

# What systemd does before it runs a service with a socket.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class Served:
    """A daemon that runs; its log is read line by line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        assert process.stderr is not None
        self._log: IO[str] = process.stderr

    def next_event(self, name: str) -> dict[str, Any]:
        """Reads the log until an event of that name; fails when the log ends first."""
        for line in self._log:
            event = json.loads(line)
            self.events.append(event)
            if event["event"] == name:
                return event  # type: ignore[no-any-return]  # from JSON
        raise AssertionError(f"no {name} in {self.events}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> tuple[int, list[str]]:
        _, rest = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, rest.splitlines()

    @property
    def address(self) -> tuple[str, int]:
        event = next(each for each in self.events if each["event"] == "start")
        host, _, port = event["address"].rpartition(":")
        return host, int(port)


@contextmanager
def started(*arguments: object, **options: Any) -> Iterator[Served]:
    process = subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, "-m", "tiercel", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    with process:
        try:
            yield Served(process)
        finally:
            process.kill()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts a daemon on any port, with a configuration, and waits until it listens."""
    with ExitStack() as stack:

        def start(text: str = "", **options: Any) -> Served:
            file = tmp_path / "tiercel.toml"
            file.write_text(f'{text}\n[log]\nformat = "json"\n' if "[log]" not in text else text, "utf-8")
            data = tmp_path / "data"
            served = stack.enter_context(
                started("--data", data, "--config", file, "--listen", "127.0.0.1:0", **options)
            )
            served.next_event("start")
            return served

        yield start


def refused(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """The exit code, and the one line that says why it does not start."""
    code = main(["serve", *map(str, arguments)])
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("tiercel serve: ")
    assert err.count("\n") == 1
    return code, err


class TestStart:
    def test_says_who_it_is(self, tmp_path: Path, serve: Callable[..., Served]) -> None:
        with tiercel.open(tmp_path / "data", computer_name="HOST") as qm:
            queue = qm.create_queue(r".\private$\orders")
            queue.send(tiercel.Message(b"secret words", delivery=1))
        served = serve()
        event = served.events[-1]
        assert (event["computer"], event["queues"], event["messages"]) == ("HOST", 1, 1)
        assert event["version"]
        assert event["guid"]
        with socket.create_connection(served.address):
            pass
        served.signal(signal.SIGTERM)
        code, rest = served.ended()
        assert code == 0
        assert "secret" not in "".join([*map(str, served.events), *rest])

    def test_a_text_log(self, tmp_path: Path) -> None:
        file = tmp_path / "log"
        with started(
            "--data",
            tmp_path / "d",
            "--config",
            _written(tmp_path, f'[log]\nfile = "{file}"'),
            "--listen",
            "127.0.0.1:0",
        ) as served:
            while not (file.exists() and "event=start" in file.read_text("utf-8")):
                assert served.process.poll() is None
                time.sleep(0.01)
            served.signal(signal.SIGTERM)
            code, rest = served.ended()
        assert (code, rest) == (0, [])
        assert [line.split()[2] for line in file.read_text("utf-8").splitlines()] == [
            "event=start",
            "event=stopping",
            "event=stop",
        ]

    def test_a_socket_of_systemd(self, tmp_path: Path) -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified,
        ):
            notified.bind(str(tmp_path / "notify"))
            notified.settimeout(PATIENCE_S)
            environment = os.environ | {
                "NOTIFY_SOCKET": str(tmp_path / "notify"),
                "WATCHDOG_USEC": "100000",
            }

            number = listener.fileno()
            serve = ("-m", "tiercel", "serve")
            arguments = ("--data", str(tmp_path / "data"), "--listen", "127.0.0.9:1")
            process = subprocess.Popen(  # noqa: S603  # our own program
                [sys.executable, "-c", ACTIVATE, str(number), *serve, *arguments],
                env=environment,
                pass_fds=[number],
                stderr=subprocess.PIPE,
                text=True,
            )
            with process:
                try:
                    assert notified.recv(1000).startswith(b"READY=1\n")
                    assert notified.recv(1000) == b"WATCHDOG=1"
                    assert notified.recv(1000) == b"WATCHDOG=1"
                    with socket.create_connection(listener.getsockname()):
                        pass
                    process.terminate()
                    said = notified.recv(1000)
                    while said == b"WATCHDOG=1":
                        said = notified.recv(1000)
                    assert said == b"STOPPING=1"
                    _, log = process.communicate(timeout=PATIENCE_S)
                finally:
                    process.kill()
            assert process.returncode == 0, log
            host, port = listener.getsockname()
            assert f"address={host}:{port}" in log


class TestStop:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_is_clean(self, number: signal.Signals, serve: Callable[..., Served], tmp_path: Path) -> None:
        served = serve()
        with socket.create_connection(served.address) as peer:
            served.next_event("session_accepted")
            served.signal(number)
            assert served.next_event("stopping")["signal"] == number.name
            peer.settimeout(PATIENCE_S)
            assert peer.recv(1) == b""
        served.next_event("stop")
        assert served.ended() == (0, [])
        with tiercel.open(tmp_path / "data") as qm:
            assert qm.queues() == []

    def test_a_second_signal_does_not_wait(self, serve: Callable[..., Served]) -> None:
        served = serve()
        with socket.create_connection(served.address):
            served.next_event("session_accepted")
            served.signal(signal.SIGTERM)
            served.next_event("stopping")
            served.signal(signal.SIGTERM)
            assert served.ended()[0] == 0


class TestReload:
    def test_takes_what_it_can(self, serve: Callable[..., Served], tmp_path: Path) -> None:
        served = serve("[limits]\nconnections = 5\n")
        text = (
            "[limits]\nconnections = 1\n[listen]\nbacklog = 7\n[hosts]\na = '10.0.0.1'\n"
            "[binary]\nwindow_size = 3\n[routing]\nout_routing_servers = ['r']\n"
            "[log]\nlevel = 'debug'\nformat = 'json'\n"
        )
        _written(tmp_path, text)
        served.signal(signal.SIGHUP)
        event = served.next_event("reload")
        assert set(event["changed"].split(",")) == {
            "limits.connections",
            "hosts",
            "routing.out_routing_servers",
            "log.level",
        }
        assert set(event["needs_restart"].split(",")) == {"listen.backlog", "binary.window_size"}
        with socket.create_connection(served.address), socket.create_connection(served.address) as second:
            second.settimeout(PATIENCE_S)
            assert second.recv(1) == b""

    def test_keeps_what_it_had_when_the_file_is_wrong(
        self, serve: Callable[..., Served], tmp_path: Path
    ) -> None:
        served = serve()
        _written(tmp_path, "[limits]\nconnections = 0\n")
        served.signal(signal.SIGHUP)
        assert "[limits] connections = 0" in served.next_event("reload_failed")["reason"]
        _written(tmp_path, '[log]\nformat = "json"\n')
        served.signal(signal.SIGHUP)
        assert served.next_event("reload")["changed"] == "nothing"
        served.signal(signal.SIGTERM)
        assert served.ended()[0] == 0


class TestRefusals:
    def test_no_data(self, capfd: pytest.CaptureFixture[str]) -> None:
        code, line = refused(capfd)
        assert code == 2
        assert "--data DIR" in line

    def test_a_wrong_configuration(self, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        file = _written(tmp_path, "[limits]\nconections = 3\n")
        code, line = refused(capfd, "--data", tmp_path / "data", "--config", file)
        assert code == 2
        assert f"{file}: [limits] conections: unknown option" in line
        assert not (tmp_path / "data").exists()

    def test_a_missing_configuration(self, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        code, line = refused(capfd, "--data", tmp_path / "data", "--config", tmp_path / "none")
        assert code == 2
        assert "No such file" in line

    def test_a_log_that_cannot_be_written(self, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        file = _written(tmp_path, "[log]\nfile = '/nowhere/log'\n")
        code, line = refused(capfd, "--data", tmp_path / "data", "--config", file)
        assert code == 2
        assert "/nowhere/log" in line

    def test_a_strange_address(self, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        code, line = refused(capfd, "--data", tmp_path, "--listen", "a:b")
        assert code == 2
        assert "--listen a:b" in line

    def test_a_port_in_use(self, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            code, line = refused(capfd, "--data", tmp_path / "data", "--listen", f"127.0.0.1:{port}")
        assert code == 69
        assert f"127.0.0.1:{port}: the port is in use. Stop the program that uses it" in line

    def test_a_port_for_http_in_use(self, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            file = _written(tmp_path, f"[srmp]\nenabled = true\nport = {port}\n[listen]\nport = 0\n")
            code, line = refused(capfd, "--data", tmp_path / "data", "--config", file)
        assert code == 69
        assert f"127.0.0.1:{port}: the port is in use." in line
        assert "choose another in the configuration" in line

    @pytest.mark.parametrize("option", ["tls_certificate", "ca"])
    def test_a_certificate_that_cannot_be_used(
        self, capfd: pytest.CaptureFixture[str], tmp_path: Path, option: str
    ) -> None:
        key = f'tls_key = "{tmp_path / "none"}"\n' if option == "tls_certificate" else ""
        options = f'enabled = true\nport = 0\n{option} = "{tmp_path / "none"}"\n{key}'
        file = _written(tmp_path, f"[srmp]\n{options}[listen]\nport = 0\n")
        code, line = refused(capfd, "--data", tmp_path / "data", "--config", file)
        assert code == 2
        assert f"[srmp] {option}" in line
        assert "cannot be used (No such file or directory)" in line
        assert not (tmp_path / "data").exists()

    @pytest.mark.parametrize("section", ["srmp", "api", "data"])
    def test_a_private_key_that_everybody_can_read(
        self, capfd: pytest.CaptureFixture[str], tmp_path: Path, section: str
    ) -> None:
        issued = Authority(tmp_path).issue("own")
        issued.key.chmod(0o644)
        options = (
            f'enabled = true\nport = 0\ntls_certificate = "{issued.certificate}"\ntls_key = "{issued.key}"\n'
        )
        file = _written(tmp_path, f"[{section}]\n{options}[listen]\nport = 0\n")
        code, line = refused(capfd, "--data", tmp_path / "data", "--config", file)
        assert code == 2
        assert f"[{section}] tls_key: {issued.key}: other users may access it (mode 0644)" in line

    def test_an_address_of_somebody_else(self, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        code, line = refused(capfd, "--data", tmp_path / "data", "--listen", "192.0.2.1:1801")
        assert code == 69
        assert "this computer has no such address" in line

    def test_a_store_in_use(self, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data"):
            code, line = refused(capfd, "--data", tmp_path / "data", "--listen", "127.0.0.1:0")
        assert code == 73
        assert f"process {os.getpid()}" in line
        assert "otherwise stop it" in line

    def test_a_store_of_a_later_version(self, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        store = LmdbStore.open(tmp_path / "data")
        batch = store.begin()
        batch.put(Keyspace.META, FORMAT_KEY, b"99")
        batch.commit()
        store.close()
        code, line = refused(capfd, "--data", tmp_path / "data", "--listen", "127.0.0.1:0")
        assert code == 73
        assert "99" in line

    def test_a_directory_of_something_else(self, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        (tmp_path / "letter.txt").write_text("dear reader", "utf-8")
        code, line = refused(capfd, "--data", tmp_path, "--listen", "127.0.0.1:0")
        assert code == 73
        assert "letter.txt" in line

    def test_a_directory_that_cannot_be_made(self, capfd: pytest.CaptureFixture[str]) -> None:
        code, line = refused(capfd, "--data", "/proc/tiercel", "--listen", "127.0.0.1:0")
        assert code == 73
        assert "cannot be opened" in line


def _written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "tiercel.toml"
    file.write_text(text, "utf-8")
    return file


FAILING = """
import sys
from tiercel.cli import main
from tiercel.model.errors import StoreFailedError
from tiercel.store.lmdb_store import LmdbBatch, LmdbStore
commits = []
commit = LmdbBatch.commit
def fail(batch):
    if commits:
        raise StoreFailedError("store", problem="a commit failed (the disk is gone)")
    commit(batch)
LmdbBatch.commit = fail
from tiercel.server.daemon import Daemon
start = Daemon.start
async def started(self, sockets=()):
    await start(self, sockets)
    commits.append("from now on")
    call = self.call(lambda engine: engine.administration.set_properties(queue_manager_quota_kib=7))
    call.add_done_callback(lambda call: call.exception())
Daemon.start = started
sys.exit(main(sys.argv[1:]))
"""


def test_a_commit_that_fails_ends_the_process(tmp_path: Path) -> None:
    ended = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, "-c", FAILING, "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 70
    assert "event=store_failed" in ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(
        "tiercel serve: stopped after a failure: store: a commit failed (the disk is gone)"
    )
    assert "Traceback" not in ended.stderr
    with tiercel.open(tmp_path / "data") as qm:
        assert qm.properties["queue_manager_quota_kib"] != 7


def test_the_address_of_the_console_is_printed(tmp_path: Path) -> None:
    config = tmp_path / "tiercel.toml"
    config.write_text('[api]\nport = 0\n[log]\nformat = "json"\n')
    with started(
        "--data", tmp_path / "data", "--config", config, "--listen", "127.0.0.1:0", "--console"
    ) as daemon:
        api = daemon.next_event("start")["api"]
        assert daemon.process.stdout is not None
        assert daemon.process.stdout.readline() == f"console: {api}/console/\n"
        assert httpx.get(f"{api}/console/", follow_redirects=True).status_code == 200
