import subprocess
from pathlib import Path

from .running_verbs import Daemon, Run, start


class TestTail:
    def test_the_last_in_the_order_of_arrival(self, run: Run, queue: str) -> None:
        for number in range(12):
            run.fine("send", queue, f"body {number}", "-p", str(number % 8), "--label", f"label {number}")
        lines = run.fine("tail", queue).lines
        assert [line.partition("label ")[2].split()[0] for line in lines] == [
            str(each) for each in range(2, 12)
        ]
        assert lines[-1].endswith("label 11  body 11")
        assert len(run.fine("tail", queue, "-n", "3", "--json").records) == 3
        assert run.fine("tail", queue, "-n", "0").out == ""

    def test_follows(self, run: Run, queue: str, daemon: Daemon) -> None:
        run.fine("send", queue, "x", "--label", "before")
        with start(daemon, "tail", "-f", queue, stdout=subprocess.PIPE) as tail:
            assert tail.stdout is not None
            try:
                assert "before" in tail.stdout.readline()
                for label in ("first", "second"):
                    run.fine("send", queue, "x", "--label", label)
                    assert label in tail.stdout.readline()
            finally:
                tail.terminate()
        assert run.fine("count", queue).out == "3\n"


class TestGrep:
    def test_labels_and_bodies_of_any_encoding(self, run: Run, queue: str) -> None:
        run.fine("send", queue, "the quick fox", "--as", "bstr", "--label", "animals")
        run.fine("send", queue, "nothing", "--label", "a Fox")
        run.fine("send", queue, "nothing", "--label", "a dog")
        assert len(run.fine("grep", "[Ff]ox", queue).lines) == 2
        assert run.fine("grep", "quick f", queue).lines[0].endswith("animals  the quick fox")
        assert run.fine("grep", "-i", "-c", "FOX", queue).out == "2\n"
        assert [each["label"] for each in run.fine("grep", "fox", queue, "--json").records] == ["animals"]

    def test_nothing(self, run: Run, queue: str) -> None:
        result = run("grep", "fox", queue)
        assert (result.code, result.out, result.err) == (3, "", "")

    def test_more_than_a_page(self, run: Run, queue: str, tmp_path: Path) -> None:
        file = tmp_path / "many"
        file.write_text("".join(f'{{"text": "body {each}"}}\n' for each in range(1200)), "utf-8")
        run.fine("import", queue, file)
        assert run.fine("grep", "-c", "body 11..$", queue).out == "100\n"

    def test_no_expression(self, run: Run, queue: str) -> None:
        result = run("grep", "(", queue)
        assert result.code == 2
        assert "is not a valid regular expression" in result.err
        run.fine("send", queue, "f(x)")
        assert run.fine("grep", "-F", "f(", queue).lines
