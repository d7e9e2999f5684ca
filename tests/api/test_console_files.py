"""The files of the console: what is served, and under which policy."""

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

from api.asked import Asked

CONSOLE = Path(str(files("tiercel.console")))
SERVED = [path for path in CONSOLE.rglob("*") if path.suffix in {".html", ".js", ".css", ".svg"}]


def test_a_policy_without_exceptions(served: Asked) -> None:
    answer = served.http.get("/console/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_every_file_is_served(served: Asked) -> None:
    for path in SERVED:
        answer = served.http.get(f"/console/{path.relative_to(CONSOLE)}")
        assert (answer.status_code, answer.content) == (200, path.read_bytes())
    again = served.http.get(
        "/console/app.js", headers={"If-None-Match": served.http.get("/console/app.js").headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert served.http.get("/console").headers["location"] == "/console/"
    assert served.http.get("/").headers["location"] == "/console/"


@pytest.mark.parametrize(
    "path", ["../api/app.py", "%2e%2e/api/app.py", "__init__.py", "vendor/README.md", "none.js", "pages"]
)
def test_nothing_else_is(served: Asked, path: str) -> None:
    assert served.http.get(f"/console/{path}").status_code == 404


def test_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = (CONSOLE / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?:", page) == []
    for path in SERVED:
        if path.suffix == ".js" and path.parent.name != "vendor":
            assert (
                re.findall(
                    r"innerHTML|insertAdjacent|document\.write|eval\(|https?://", path.read_text("utf-8")
                )
                == []
            )


@pytest.mark.parametrize("folder", [CONSOLE / "vendor", Path(__file__).parents[1] / "console" / "vendor"])
def test_vendored_files_are_those_of_the_list(folder: Path) -> None:
    text = (folder / "README.md").read_text("utf-8")
    listed = dict(re.findall(r"\| (\S+\.js) \|.*`([0-9a-f]{64})` \|", text))
    assert listed == {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.glob("*.js")
    }
