"""Every message that this queue manager refuses is in the log, but never more than a line a second."""

from pathlib import Path

import pytest

import tiercel
from engine.harness import foreign_packet


def test_a_refused_message_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with tiercel.open(tmp_path / "data") as manager:
        driver = manager._runtime.driver
        packet = foreign_packet(
            b"x", destination_queue=tiercel.FormatName.parse(r"DIRECT=OS:.\private$\nowhere")
        )
        for _ in range(100):
            driver.run(lambda: driver.engine.delivery.arrive(packet, None, "nowhere"))
    lines = [str(vars(each)) for each in caplog.records if each.message == "message_refused"]
    assert 1 <= len(lines) < 100
    assert "the destination queue does not exist" in lines[0]
    assert "nowhere" in lines[0]
