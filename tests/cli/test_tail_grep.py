import base64
import json
import subprocess
from pathlib import Path

from nbfx.vectors import load

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

    def test_a_filter(self, run: Run, queue: str) -> None:
        for priority in range(5):
            run.fine("send", queue, f"body {priority}", "--label", f"order {priority}", "-p", str(priority))
        assert run.fine("grep", "-c", "priority>=3 age<1h", queue).out.strip() == "2"
        (line,) = run.fine("grep", "label:ORDER -priority<4", queue).lines
        assert "order 4  body 4" in line
        assert run("grep", "priority>7", queue).code == 3
        assert "write a number" in run.refused(1, "grep", "priority>high", queue)
        assert run.fine("grep", "-F", "-c", "body 3", queue).out.strip() == "1"

    def test_no_expression(self, run: Run, queue: str) -> None:
        refused = run.refused(5, "grep", queue, "two words")
        assert f"The pattern comes first: `tiercel grep 'two words' {queue}`" in refused
        assert "comes first" not in run.refused(5, "grep", "fox", "nowhere")
        result = run("grep", "(", queue)
        assert result.code == 2
        assert "is not a valid regular expression" in result.err
        run.fine("send", queue, "f(x)")
        assert run.fine("grep", "-F", "f(", queue).lines


class TestWcf:
    """Messages of NetMsmqBinding and of service buses are shown as what they say."""

    def send(self, run: Run, queue: str, folder: Path) -> None:
        vector = next(each for each in load("nmfmb") if each["name"] == "02_datagram_order")
        body = base64.b64encode(bytes.fromhex(vector["hex"])).decode()
        header = b"<HeaderInfo><Key>Tenant</Key><Value>blue</Value></HeaderInfo>"
        extension = b"<ArrayOfHeaderInfo>" + header + b"</ArrayOfHeaderInfo>"
        file = folder / "messages"
        lines = [
            {"body": body, "body_type": 0x1011},
            {"text": "{}", "extension": base64.b64encode(extension).decode()},
        ]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        run.fine("import", queue, file)

    def test_every_verb(self, run: Run, queue: str, tmp_path: Path) -> None:
        self.send(run, queue, tmp_path)
        action, text = "http://example.org/orders/IOrder/Submit", '<Submit xmlns="http://example.org/orders">'
        shown = run.fine("peek", queue).out
        assert action in shown
        assert "net.msmq://localhost/private/orders" in shown
        assert text in shown
        assert action in run.fine("tail", queue).lines[0]
        assert len(run.fine("grep", "IOrder/Submit", queue).lines) == 1
        assert len(run.fine("grep", "würfel", queue).lines) == 1
        assert len(run.fine("grep", "blue", queue).lines) == 1
        exported = [json.loads(line) for line in run.fine("export", "--decode", queue).lines]
        assert exported[0]["decoded"]["kind"] == "wcf"
        assert exported[0]["decoded"]["headers"]["action"] == action
        assert exported[0]["decoded"]["text"].startswith(text)
        assert exported[1]["decoded"]["headers"] == {"Tenant": "blue"}
        assert "decoded" not in run.fine("export", queue).out
