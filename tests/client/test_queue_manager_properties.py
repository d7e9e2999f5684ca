from pathlib import Path

import pytest

import tiercel


def test_the_quota_of_the_queue_manager_is_kept_over_a_restart(directory: Path) -> None:
    with tiercel.open(directory) as qm:
        queue = qm.create_queue(r".\private$\q")
        qm.set_properties(queue_manager_quota_kib=1)
        with pytest.raises(tiercel.InsufficientResourcesError, match="queue manager"):
            queue.send(bytes(2000))
    with tiercel.open(directory) as qm:
        assert qm.properties["queue_manager_quota_kib"] == 1
        with pytest.raises(tiercel.PropertyNotAllowedError):
            qm.set_properties(computer_name="OTHER")
