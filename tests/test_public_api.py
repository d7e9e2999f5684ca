"""What is documented works: the names of the package, and the examples; tests/docs has the code of pages."""

import builtins
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tiercel
from tiercel import aio
from tiercel.model import errors

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "library.md").read_text("utf-8")
# The story is run beside the tests of Spark; tests/pipeline parses the example for Airflow.
ELSEWHERE = {"story", "airflow_pipeline"}
EXAMPLES = [each for each in sorted((ROOT / "examples").glob("*.py")) if each.stem not in ELSEWHERE]


def run(program: Path, folder: Path, *options: str) -> str:
    ended = subprocess.run(  # noqa: S603  # our own programs
        [sys.executable, "-W", "error", *options, str(program)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,  # only one that hangs takes so long
    )
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr
    return ended.stdout


class TestNames:
    def test_all_is_importable_and_sorted_out(self) -> None:
        assert len(set(tiercel.__all__)) == len(tiercel.__all__)
        for name in tiercel.__all__:
            assert getattr(tiercel, name) is not None

    def test_all_names_every_error(self) -> None:
        every = {
            name
            for name, value in vars(errors).items()
            if isinstance(value, type) and issubclass(value, errors.TiercelError)
        }
        assert every <= set(tiercel.__all__)
        for name in every:
            assert issubclass(getattr(tiercel, name), tiercel.TiercelError)

    def test_dir_shows_what_a_program_needs(self) -> None:
        shown = dir(tiercel)
        assert {"Message", "open", "connect", "errors", "aio", "QueueManager"} <= set(shown)
        assert not [name for name in shown if name.startswith("_") or name.endswith("Error")]
        assert not {"Any", "TYPE_CHECKING", "annotations"} & set(shown)
        assert len(shown) < 40

    def test_errors_are_in_one_place_and_at_the_top(self) -> None:
        assert "QueueNotFoundError" in dir(tiercel.errors)
        assert tiercel.errors.QueueNotFoundError is tiercel.QueueNotFoundError
        assert not [name for name in dir(tiercel.errors) if not name.endswith("Error")]
        with pytest.raises(AttributeError, match="NoSuchError"):
            getattr(tiercel, "NoSuchError")  # noqa: B009  # mypy would find it

    def test_a_star_import_does_not_hide_a_builtin_but_open(self) -> None:
        assert set(vars(builtins)) & set(tiercel.__all__) == {"open"}

    def test_every_name_on_the_page_is_there(self) -> None:
        named = set(re.findall(r"\btiercel\.([A-Za-z_]\w*)", PAGE)) - {"testing", "aio", "errors"}
        assert named <= set(tiercel.__all__)
        assert set(re.findall(r"`(\w+Error)`", PAGE)) - set(vars(builtins)) <= set(tiercel.__all__)
        assert set(re.findall(r"\baio\.([a-z_]\w*)", PAGE)) <= set(vars(aio))

    def test_every_property_on_the_page_is_one(self) -> None:
        section = PAGE.partition("## Messages")[2].partition("## Receiving")[0]
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
        assert len(named) > 30
        assert not [name for name in named if not hasattr(tiercel.Message(), name)]

    def test_every_queue_property_on_the_page_is_one(self, tmp_path: Path) -> None:
        section = PAGE.partition("accept these properties")[2].partition("A queue is made")[0]
        named = set(re.findall(r"`(\w+)`", section.partition("returns them:")[2]))
        with tiercel.open(tmp_path / "data") as qm:
            assert set(qm.create_queue(r".\private$\q").properties) == named


def test_the_page_shows_everything_that_a_user_calls() -> None:
    for kind in (
        tiercel.EmbeddedQueueManager,
        tiercel.EmbeddedQueue,
        tiercel.EmbeddedCursor,
        tiercel.EmbeddedTransaction,
    ):
        inner = {"driver", "opened"}  # for the library itself
        inner |= {"of", "close", "id", "is_active", "commit"}
        for name in dir(kind):
            if not name.startswith("_") and name not in inner | {"peek_next"}:
                assert re.search(rf"\b{name}\b", PAGE), f"{kind.__name__}.{name}"


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.stem)
def test_example(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path).strip()
    assert not list(tmp_path.iterdir()), "it leaves something behind"


def test_orders_go_on_where_they_stopped(tmp_path: Path) -> None:
    program = ROOT / "examples" / "orders.py"
    for expected in ("refused: 1", "refused: 2"):
        ended = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, str(program), "data"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert ended.stdout.splitlines()[-1] == expected
