"""A daemon with tokens, and a real browser: Debian's Chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.asked import Asked, asked
from tiercel.security.tokens import Bearer, Role, Tokens, digest_of, new_token

_CHROMIUM = shutil.which("chromium")
_PATIENCE_MS = 60_000


class Site(NamedTuple):
    """The daemon, and the tokens for it."""

    served: Asked
    tokens: dict[str, str]
    token_file: Path

    @property
    def address(self) -> str:
        return f"{self.served.start['api']}/console/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Until the end of the file only: while Playwright's event loop runs, asyncio refuses others."""
    if _CHROMIUM is None:
        pytest.skip("the console is not tested: Chromium is missing; `make console-test` installs it")
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect.set_options(timeout=_PATIENCE_MS)
    arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
    with (
        playwright.sync_playwright() as driver,
        driver.chromium.launch(executable_path=_CHROMIUM, args=arguments) as browser,
    ):
        yield browser


@pytest.fixture(scope="module")
def site(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    del browser  # without one, no daemon is needed
    with site_of(tmp_path_factory.mktemp("console")) as site:
        yield site


@contextmanager
def site_of(folder: Path, options: str = "") -> Iterator[Site]:
    """A daemon with a token for each role, on a new store or on the one that is there already."""
    tokens = {role.value: new_token() for role in Role}
    bearers = [Bearer(name, frozenset({Role(name)}), digest_of(token)) for name, token in tokens.items()]
    file = folder / "tokens"
    file.touch(0o600)
    file.write_text(Tokens(tuple(bearers)).text())
    with asked(folder, f'[api]\nenabled = true\nport = 0\ntokens = "{file}"\n{options}') as served:
        yield Site(served, tokens, file)


@pytest.fixture
def new_page(browser: Any) -> Iterator[Any]:
    """Makes pages; any error in their consoles fails the test."""
    contexts, errors = [], []

    def make(**options: Any) -> Any:
        context = browser.new_context(**options)
        context.set_default_timeout(_PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console", lambda said: errors.append(said.text) if said.type in {"error", "warning"} else None
        )
        return page

    yield make
    for context in contexts:
        context.close()
    # Chromium reports every refused request, such as the first one, which finds that a login is needed.
    assert [each for each in errors if not each.startswith("Failed to load resource")] == []


@pytest.fixture
def page(site: Site, new_page: Any) -> Any:
    """The console, logged in as administrator."""
    page = new_page(viewport={"width": 1280, "height": 800})
    log_in(page, site, "admin")
    return page


def log_in(page: Any, site: Site, role: str) -> None:
    page.goto(site.address)
    page.get_by_label("Token").fill(site.tokens[role])
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Overview").wait_for()


def expect(target: Any) -> Any:
    from playwright.sync_api import expect as of_playwright  # noqa: PLC0415  # only where it is installed

    return of_playwright(target)


def go(page: Any, site: Site, place: str) -> None:
    page.goto(f"{site.address}#/{place}")
