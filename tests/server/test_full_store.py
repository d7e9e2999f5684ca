"""A store or disk without space: senders are refused, and the log says why."""

import errno
from pathlib import Path

import pytest

import tiercel
from tiercel.store import MIN_MAX_BYTES, Store


def refuse(_descriptor: int, _offset: int, _size: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def fill(queue: tiercel.EmbeddedQueue) -> None:
    """Send until the store refuses."""
    message = tiercel.Message(bytes(100_000), delivery=tiercel.DeliveryGuarantee.RECOVERABLE)
    with pytest.raises(tiercel.StoreFullError):  # noqa: PT012  # some sends come before
        while True:
            queue.send(message)


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(vars(each)) for each in caplog.records if each.message == "store_full"]


def test_a_full_store_is_one_log_line_a_second(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tiercel.open(tmp_path / "data", max_bytes=MIN_MAX_BYTES) as manager:
        queue = manager.create_queue(r".\private$\orders")
        for _ in range(5):
            fill(queue)
        assert manager._runtime.driver.store.refusals >= 5
    lines = reasons(caplog)
    assert 1 <= len(lines) < 5
    assert "the store has reached its limit" in lines[0]


def test_a_full_disk_is_named_as_such(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiercel.open(tmp_path / "data") as manager:
        queue = manager.create_queue(r".\private$\orders")
        monkeypatch.setattr("os.posix_fallocate", refuse)
        fill(queue)
    assert "the disk has no more space (No space left on device)" in reasons(caplog)[0]


def test_the_space_of_a_store(tmp_path: Path) -> None:
    with tiercel.open(tmp_path / "data", max_bytes=MIN_MAX_BYTES) as manager:
        store: Store = manager._runtime.driver.store
        before = store.space()
        queue = manager.create_queue(r".\private$\orders")
        queue.send(tiercel.Message(bytes(100_000), delivery=tiercel.DeliveryGuarantee.RECOVERABLE))
        after = store.space()
    assert after.used >= before.used + 100_000
    assert after.limit == before.limit == MIN_MAX_BYTES
    assert after.disk_free
