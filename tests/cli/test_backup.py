"""`tiercel backup`: what it says, and how it ends."""

import json
from pathlib import Path

import pytest

import tiercel
from tiercel import cli
from tiercel.cli.exit_codes import ExitCode
from tiercel.store import Keyspace
from tiercel.store.lmdb_store import LmdbStore

ORDERS = r".\private$\orders"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tiercel.open(tmp_path / "data") as qm:
        qm.create_queue(ORDERS).send(tiercel.Message(b"tea", delivery=tiercel.DeliveryGuarantee.RECOVERABLE))
    return tmp_path / "data"


def test_of_a_stopped_store(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["backup", "--data", str(data), str(tmp_path / "copy")]) == ExitCode.FINE
    assert capsys.readouterr().out.startswith(f"{tmp_path}/copy: 1 messages of ")
    with tiercel.open(tmp_path / "copy") as qm:
        assert qm.queue(ORDERS).receive(timeout=0).body == b"tea"


def test_the_directory_of_the_environment(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIERCEL_DATA", str(data))
    assert cli.main(["backup", "--json", str(tmp_path / "copy")]) == ExitCode.FINE
    made = json.loads(capsys.readouterr().out)
    assert (made["messages"], made["problems"]) == (1, [])


def test_nothing_to_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["backup", "--data", str(tmp_path / "no"), str(tmp_path / "copy")]) == ExitCode.NO_STORE
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tiercel backup: store {tmp_path}/no: there is no store here. Check the name")
    assert not list(tmp_path.iterdir())


def test_no_place_for_it(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["backup", "--data", str(data), str(data)]) != ExitCode.FINE
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"tiercel backup: backup {data}: there is a store already. Name an empty directory"
    )


def test_a_damaged_store(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = LmdbStore.open(data)
    batch = store.begin()
    [(key, value)] = batch.range(Keyspace.MESSAGES, b"", b"\xff" * 20)
    batch.put(Keyspace.MESSAGES, key, value[:-1] + b"!")
    batch.commit()
    store.close()
    assert cli.main(["backup", "--data", str(data), str(tmp_path / "copy")]) == ExitCode.FAILED
    assert "is damaged, and so is the copy" in capsys.readouterr().err
