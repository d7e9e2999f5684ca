"""`tiercel create --multicast`, `tiercel set` and `tiercel multicast`."""

from .running_verbs import Run

ADDRESS = "234.77.1.1:8001"


def test_a_queue_subscribes_and_leaves(run: Run) -> None:
    name = run.fine("create", "prices-of-cli", "--multicast", ADDRESS).lines[0]
    assert run.fine("set", name, "--json").record["multicast_address"] == ADDRESS
    head, row, off = run.fine("multicast").lines
    assert head.split() == ["ADDRESS", "SOURCE", "PACKETS", "REPAIRED", "LOST", "QUEUES"]
    assert row.split()[0] == ADDRESS
    assert row.endswith(r"private$\prices-of-cli")
    assert off == "Multicast is off: set [multicast] enabled = true in the configuration."
    (queue,) = run.fine("multicast", "--json").record["groups"][0]["queues"]
    assert queue.endswith("prices-of-cli")
    run.fine("set", name, "multicast_address=none")
    assert run("multicast").err.startswith("No multicast addresses.")
    run.fine("rm", name, "--yes")


def test_an_address_that_is_not_multicast_is_refused(run: Run) -> None:
    assert "multicast address" in run.refused(1, "create", "wrong-of-cli", "--multicast", "10.0.0.1:80")
    assert "no transport for MULTICAST names" in run.refused(1, "send", f"MULTICAST={ADDRESS}", "x")
