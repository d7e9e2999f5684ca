"""What goes on, on stores at rest: transactions in doubt and claims outlive whoever made them."""

import re
from pathlib import Path

import pytest

import tiercel
from addresses import own_address
from data.served import until

from .running_verbs import Run


class TestStreams:
    FAR = r"DIRECT=OS:far.invalid\private$\streams"
    GUID = "40d7c85b-be11-4984-a852-4488ea85537c"

    def test_what_waits(self, run: Run) -> None:
        run.fine("send", self.FAR, "hello", "--transactional")
        rows = run.fine("streams").lines
        assert "SEQUENCE" in rows[0]
        assert any(row.startswith(f"{self.FAR}  outgoing") for row in rows)
        record = next(each for each in run.fine("streams", "--json").records if each["queue"] == self.FAR)
        assert (record["direction"], record["number"], record["acknowledged"]) == ("out", 1, 0)
        run.fine("purge", "--yes", self.FAR)

    def test_a_reset_is_asked_for_and_finds_nothing(self, run: Run) -> None:
        run.fine("create", "streamed", "--transactional")
        assert "add --yes" in run.refused(1, "streams", "reset", "streamed", self.GUID)
        assert "has no stream into this queue" in run.refused(
            5, "streams", "reset", "streamed", self.GUID, "--yes"
        )
        run.fine("rm", "--yes", "streamed")


class TestOutgoing:
    FAR = r"DIRECT=OS:far.invalid\private$\outgoing"

    def test_what_waits(self, run: Run) -> None:
        run.fine("send", self.FAR, "hello")
        head, *rows = run.fine("outgoing").lines
        assert head.startswith("TO ")
        assert any(row.startswith(self.FAR) for row in rows)
        record = next(
            each for each in run.fine("outgoing", "--json").records if each["format_name"] == self.FAR
        )
        assert record["count"] == 1
        assert run.fine("peek", self.FAR).lines[-1] == "    hello"
        run.fine("purge", "--yes", self.FAR)

    def test_why_a_computer_cannot_be_reached(self, run: Run) -> None:
        """A real connection to a port where nobody listens."""
        far = rf"DIRECT=TCP:{own_address(7)}\private$\outgoing"
        run.fine("send", far, "hello")

        def row() -> str:
            return next(each for each in run.fine("outgoing").lines if each.startswith(far))

        until(lambda: "connection refused" in row())
        run.fine("purge", "--yes", far)

    def test_nothing_to_show(self, run: Run) -> None:
        for verb in ("connections", "transactions", "claims"):
            result = run(verb)
            assert (result.code, result.out) == (0, "")
            assert result.err.endswith(".\n")
            assert run.fine(verb, "--json").out == ""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A store with a transaction in doubt and a claim."""
    with tiercel.open(tmp_path / "data") as qm:
        orders = qm.create_queue(r".\private$\orders", transactional=True)
        transaction = qm.begin_transaction()
        orders.send(b"in doubt", transaction=transaction)
        qm.driver.run(lambda: qm.driver.engine.resource_manager.prepare(transaction.id))
        lake = qm.create_queue(r".\private$\lake")
        lake.send(tiercel.Message(b"claimed", delivery=1))
        qm.consumer("spark").claim(lake)
    return tmp_path / "data"


class TestTransactions:
    @pytest.mark.parametrize(("how", "count"), [("commit", "1\n"), ("abort", "0\n")])
    def test_one_in_doubt_is_decided(self, run: Run, data: Path, how: str, count: str) -> None:
        where = ["--data", data]
        found = run.fine("transactions", "--json", *where).record
        assert (found["is_in_doubt"], found["sends"]) == (True, 1)
        assert re.search(r"in doubt +\d+ s +1", run.fine("transactions", *where).lines[1])
        assert "(1 send, 0 receives)? Nothing was done: add --yes" in run.refused(
            1, "transactions", f"--{how}", found["id"], *where
        )
        assert run.fine("transactions", f"--{how}", found["id"], "--yes", *where).out.startswith(found["id"])
        assert run.fine("count", "orders", *where).out == count

    def test_refused(self, run: Run) -> None:
        assert "no such transaction" in run.refused(5, "transactions", "--abort", "x")
        assert run("transactions", "--abort", "x", "--commit", "y").code == 2


class TestClaims:
    def test_are_given_back(self, run: Run, data: Path) -> None:
        where = ["--data", data]
        found = run.fine("claims", "--json", *where).record
        assert (found["consumer"], found["count"]) == ("spark", 1)
        assert run.fine("claims", *where).lines[1].split()[0] == "spark"
        assert "Return 1 message claimed by spark? Nothing was done: add --yes" in run.refused(
            1, "claims", "--release", "spark", *where
        )
        released = run.fine("claims", "--release", "spark", "--yes", *where).out
        assert released == "spark: 1 message returned\n"
        assert run.fine("count", "lake", *where).out == "1\n"
        assert run.fine("claims", "--forget", "spark", *where).out == "spark: forgotten\n"

    def test_refused(self, run: Run) -> None:
        assert "nobody" in run.refused(5, "claims", "--release", "nobody", "--yes")
        assert run("claims", "--release", "x", "--forget", "y").code == 2
