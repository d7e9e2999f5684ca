"""What an enemy tries in a real browser: other pages, hostile messages, guessed tokens, missing roles."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from addresses import own_address
from api.asked import at
from console.conftest import Site, expect, go, log_in, site_of
from interop.http_peers import nginx

# By page: what each button needs.
NEEDS = {
    "": {"Create queue": {"admin"}},
    "queue/roles": {
        "Send": {"send"},
        "Move all": {"receive", "send"},
        "Copy all": {"receive", "send"},
        "Delete all": {"receive"},
        "Purge": {"admin"},
    },
    "queue/roles?view=properties": {"Delete queue": {"admin"}, "Nothing is changed yet": {"admin"}},
    "message": {
        "Edit and resend": {"receive", "send"},
        "Copy to editor": {"receive", "send"},
        "Move": {"receive", "send"},
        "Delete": {"receive"},
    },
    "dead": {"Replay": {"receive", "send"}},
    "outgoing": {"Pause": {"admin"}},
    "operations": {"Undo": {"receive"}},
}
GRANTS = {"read": {"read"}, "receive": {"read", "receive"}, "admin": {"read", "send", "receive", "admin"}}
ORDER = ("read", "receive", "send", "admin")  # as the page names them
# Of every page that only administrators may see, what others are told.
ADMINS = ["audit", "access"]


@pytest.fixture(scope="module")
def filled(site: Site) -> Site:
    """Something on every page."""
    far = rf"DIRECT=TCP:{own_address(3)}\private$\far"
    site.served.create("roles")
    site.served.send("roles", {"label": "one"}, {"label": "two"})
    site.served.post(f"{at('roles')}/delete", {"limit": 1})
    site.served.send(far, {"label": "dead", "negative_journaling": True})
    site.served.post(f"{at(far)}/purge")
    site.served.send(far, {"label": "waits"})
    return site


class TestRoles:
    @pytest.mark.parametrize("role", GRANTS)
    def test_every_button_is_refused_without_its_role(self, filled: Site, new_page: Any, role: str) -> None:
        page = new_page(viewport={"width": 1280, "height": 800})
        log_in(page, filled, role)
        (message,) = filled.served.get(f"{at('roles')}/messages").json()["messages"]
        for place, buttons in NEEDS.items():
            go(page, filled, f"queue/roles/{message['lookup_id']}" if place == "message" else place)
            for name, needs in buttons.items():
                lacks = " and ".join(each for each in ORDER if each in needs - GRANTS[role])
                full = f"{name} (needs the role {lacks})" if lacks else name
                button = page.get_by_role("button", name=full, exact=True).first
                if lacks:
                    expect(button).to_be_disabled()
                elif name != "Nothing is changed yet":
                    expect(button).to_be_enabled()

    @pytest.mark.parametrize("place", ADMINS)
    def test_pages_of_administrators(self, site: Site, new_page: Any, place: str) -> None:
        page = new_page()
        log_in(page, site, "receive")
        go(page, site, place)
        expect(page.get_by_role("alert")).to_contain_text("lacks the role admin")

    def test_who_may_only_send_starts_where_that_is_done(self, site: Site, new_page: Any) -> None:
        page = new_page(viewport={"width": 1280, "height": 800})
        site.served.create("inbox")
        page.goto(site.address)
        page.get_by_label("Token").fill(site.tokens["send"])
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Send")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_role("navigation").get_by_role("link")).to_have_text(["Send"])
        page.get_by_label("To queue").fill("inbox")
        page.get_by_label("Label").fill("from the console")
        page.get_by_role("main").get_by_role("button", name="Send").click()
        expect(page.get_by_text("Sent to inbox as")).to_be_visible()
        assert site.served.labels("inbox") == ["from the console"]
        page.keyboard.press("Escape")
        go(page, site, "queue/inbox")
        expect(page.get_by_role("alert")).to_contain_text("lacks the role read")


@contextmanager
def another_site(folder: Path) -> Iterator[str]:
    """Of the same computer, so that the browser calls it the same site: its port only differs."""
    (folder / "index.html").write_text("<!doctype html><title>evil</title>")
    handler = partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_words: Any) -> None:
        """Not into the output of the tests."""


FORGE = """async ([purge, list]) => {
    const results = [];
    const ask = async (address, options) =>
        results.push(await fetch(address, {credentials: "include", ...options})
            .then(() => "answered", () => "refused"));
    await ask(purge, {method: "POST", body: "{}", mode: "no-cors"});
    await ask(purge, {method: "POST", body: "{}", mode: "no-cors", headers: {"Content-Type": "text/plain"}});
    await ask(purge, {method: "POST", body: "{}"});
    await ask(purge, {method: "POST", body: "{}", headers: {"X-Tiercel": "1"}});
    await ask(list, {});
    const form = document.createElement("form");
    Object.assign(form, {method: "POST", action: purge, target: "frame"});
    const frame = document.createElement("iframe");
    frame.name = "frame";
    document.body.append(frame, form);
    await new Promise((done) => { frame.onload = done; form.submit(); });
    return results;
}"""


FRAME = """address => new Promise((done) => {
    const frame = document.createElement("iframe");
    frame.src = address;
    frame.onload = () => done(frame.contentDocument?.title ?? null);
    document.body.append(frame);
})"""


def test_another_page_of_the_same_computer_can_do_nothing(page: Any, site: Site, tmp_path: Path) -> None:
    site.served.create("prey")
    site.served.send("prey", {"label": "kept"})
    api = site.served.start["api"]
    with another_site(tmp_path) as evil:
        other = page.context.new_page()  # with the cookie of the login
        other.goto(evil)
        targets = [f"{api}/api/v1/queues/prey/purge", f"{api}/api/v1/queues"]
        results = other.evaluate(FORGE, targets)
        assert results == ["answered", "answered", "refused", "refused", "refused"]
        framed = other.evaluate(FRAME, site.address)
        assert framed is None, "the console lets itself be framed"
    assert site.served.labels("prey") == ["kept"]
    page.reload()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


POLICY = """async () => {
    await new Promise((done) => setTimeout(done)); // until then, the protocol of the browser allows eval
    const broken = [];
    document.addEventListener("securitypolicyviolation", (event) => broken.push(event.effectiveDirective));
    const attempt = (work) => { try { work(); return "done"; } catch (error) { return error.name; } };
    const script = document.createElement("script");
    const results = {
        html: attempt(() => { document.body.innerHTML += "<img src=x onerror=hacked=1>"; }),
        text: attempt(() => { script.textContent = "window.hacked = 1"; document.head.append(script); }),
        evaluated: attempt(() => (0, eval)("window.hacked = 1")),
    };
    const image = new Image();
    image.src = "http://192.0.2.1/x.png";
    const style = document.createElement("style");
    style.textContent = "body { background: red }";
    document.head.append(style);
    results.fetched = await fetch("http://192.0.2.1/").then(() => "done", (error) => error.name);
    await new Promise((done) => setTimeout(done, 300));
    return {...results, hacked: window.hacked ?? null, broken: [...new Set(broken)].sort()};
}"""


def test_the_policy_holds_in_the_browser(site: Site, browser: Any) -> None:
    context = browser.new_context()
    try:
        page = context.new_page()  # whose console may complain
        log_in(page, site, "read")
        found = page.evaluate(POLICY)
    finally:
        context.close()
    broken = found.pop("broken")
    assert found == {
        "html": "TypeError",
        "text": "TypeError",
        "evaluated": "EvalError",
        "fetched": "TypeError",
        "hacked": None,
    }
    assert {"connect-src", "img-src", "style-src-elem", "require-trusted-types-for"} <= set(broken)


KEPT = """async () => JSON.stringify([
    {...localStorage}, {...sessionStorage}, document.cookie, await indexedDB.databases(), await caches.keys(),
    location.href, document.documentElement.outerHTML, performance.getEntries().map((each) => each.name),
    window.name, history.state,
])"""


def test_no_token_is_kept_in_the_browser_and_guesses_are_limited(tmp_path: Path, new_page: Any) -> None:
    with site_of(tmp_path) as site:
        page = new_page()
        log_in(page, site, "admin")
        assert site.tokens["admin"] not in page.evaluate(KEPT)
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["value"] in site.tokens.values()) == (
            True,
            "Strict",
            False,
        )
        page.get_by_role("button", name="Log out").click()
        for _ in range(5):
            page.get_by_label("Token").fill("tiercel_guess")
            with page.expect_response("**/console/login"):
                page.get_by_role("button", name="Log in").click()
            expect(page.get_by_role("alert")).to_contain_text("does not know this token")
        page.get_by_label("Token").fill(site.tokens["admin"])
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("too many failed logins")


def test_behind_a_proxy_that_changes_host(tmp_path: Path, new_page: Any) -> None:
    """Only the address in `trusted_origins` may log in and change things."""
    host = own_address(5)
    ours, others = f"http://{host}:8080", f"http://{host}:8081"
    with site_of(tmp_path, f'trusted_origins = ["{ours}"]\n') as site:
        passed = f"proxy_pass {site.served.start['api']}; proxy_http_version 1.1; proxy_buffering off;"
        location = f"location / {{ {passed} proxy_set_header Host inside.example; }}"
        servers = "".join(f"    server {{ listen {host}:{port}; {location} }}\n" for port in (8080, 8081))
        with nginx(tmp_path / "nginx", servers):
            page = new_page()
            open_when_ready(page, f"{others}/console/")
            page.get_by_label("Token").fill(site.tokens["admin"])
            page.get_by_role("button", name="Log in").click()
            expect(page.get_by_role("alert")).to_contain_text("trusted_origins")
            page.goto(f"{ours}/console/")
            page.get_by_label("Token").fill(site.tokens["admin"])
            page.get_by_role("button", name="Log in").click()
            page.get_by_role("button", name="Create queue").click()
            page.get_by_label("Name").fill("proxied")
            page.get_by_role("button", name="Create", exact=True).click()
            expect(page.get_by_role("link", name="proxied")).to_be_visible()


def open_when_ready(page: Any, address: str) -> None:
    from playwright.sync_api import Error  # noqa: PLC0415  # only where it is installed

    for _ in range(100):
        try:
            page.goto(address)
        except Error:
            page.wait_for_timeout(100)
        else:
            return
    raise TimeoutError(address)


HOSTILE: list[dict[str, Any]] = [
    {"label": "\u202egnp.exe" + "x" * 200, "text": "\u202e\u0007\u001b[31mred"},
    {"label": "deep", "text": "[" * 5000 + "]" * 5000},
    {
        "label": "xml",
        "text": "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
    },
    {"label": "bytes", "body": "//79AAEC"},
    {"label": "${alert(1)}{{7*7}}`", "text": "</pre></textarea><script>alert(1)</script>"},
    {"label": "__proto__", "json": {"__proto__": {"admin": True}, "constructor": 1}},
]


def test_hostile_messages_are_shown_and_edited_as_they_are(page: Any, site: Site) -> None:
    site.served.create("hostile-bodies")
    site.served.send("hostile-bodies", *HOSTILE)
    messages = site.served.get(f"{at('hostile-bodies')}/messages").json()["messages"]
    for message, sent in zip(messages, HOSTILE, strict=True):
        for place in ("queue", "edit"):
            go(page, site, f"{place}/hostile-bodies/{message['lookup_id']}")
            expect(page.locator("main pre").first).to_be_visible()
        expect(page.get_by_label("Label")).to_have_value(str(sent["label"]))
        go(page, site, f"queue/hostile-bodies/{message['lookup_id']}")
        page.get_by_role("button", name="Packet").click()
        expect(page.get_by_role("heading", name="UserHeader")).to_be_visible()
    assert page.locator("img, iframe, main script").count() == 0
