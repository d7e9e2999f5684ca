"""What people do in the console, clicked through in a real browser."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from api.asked import at
from console.conftest import Site, expect, go, log_in

AXE = Path(__file__).parent / "vendor" / "axe.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
HOSTILE = "<img src=x onerror=alert(1)>"


class TestLogin:
    def test_keeps_nothing_in_the_browser(self, page: Any, site: Site) -> None:
        kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        assert json.loads(kept) == [{}, {}, ""]
        page.reload()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        page.reload()
        expect(page.get_by_label("Token")).to_be_visible()
        del site

    def test_with_a_wrong_token_says_so(self, site: Site, new_page: Any) -> None:
        page = new_page()
        page.goto(site.address)
        page.get_by_label("Token").fill("tiercel_wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("does not know this token")

    def test_without_a_role_a_button_says_which(self, site: Site, new_page: Any) -> None:
        page = new_page()
        log_in(page, site, "read")
        button = page.get_by_role("button", name="Create queue (needs the role admin)")
        expect(button).to_be_disabled()


class TestQueues:
    def test_create_send_find_and_delete(self, page: Any, site: Site) -> None:
        page.get_by_role("button", name="Create queue").click()
        page.get_by_label("Name").fill("made")
        page.get_by_role("button", name="Create", exact=True).click()
        page.get_by_role("link", name="made").click()
        page.get_by_role("button", name="Send").click()
        page.get_by_label("Label").fill("first")
        page.get_by_label("Body").fill('{"customer": "Smith"}')
        page.get_by_role("dialog").get_by_role("button", name="Send").click()
        expect(page.get_by_role("row", name="first")).to_be_visible()
        page.get_by_role("button", name="Search").click()
        page.get_by_label("Pattern").fill("smi.h")
        page.get_by_label("Pattern").press("Enter")
        page.get_by_role("link", name="first").click()
        expect(page.get_by_label("Body", exact=True)).to_contain_text('"customer": "Smith"')
        page.get_by_role("button", name="Packet").click()
        expect(page.get_by_role("heading", name="UserHeader")).to_be_visible()
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_text("The queue is empty.")).to_be_visible()
        assert site.served.count("made") == 0

    def test_hostile_names_and_bodies_are_text(self, page: Any, site: Site) -> None:
        site.served.create("hostile", label=HOSTILE)
        site.served.send("hostile", {"label": HOSTILE, "text": f"<script>alert(1)</script>{HOSTILE}"})
        go(page, site, "queue/hostile")
        page.get_by_role("row", name=HOSTILE).click()
        expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
        expect(page.get_by_label("Body", exact=True)).to_contain_text("<script>alert(1)</script>")
        assert page.locator("img").count() == 0
        go(page, site, "queue/%3Cimg%20src%3Dx%3E")
        expect(page.get_by_role("alert")).to_be_visible()

    def test_any_row_of_a_long_queue_is_a_jump_away(self, page: Any, site: Site) -> None:
        site.served.create("long")
        lines = "".join(f'{{"label": "message {number}"}}\n' for number in range(1, 5001))
        headers = {"Content-Type": "application/x-ndjson"}
        site.served.ask("POST", f"{at('long')}/messages", content=lines.encode(), headers=headers)
        go(page, site, "queue/long")
        expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "5001")
        expect(page.get_by_role("row", name="message 1 ", exact=False).first).to_be_visible()
        page.get_by_label("Row").fill("4321")
        page.get_by_role("button", name="Jump").click()
        expect(page.get_by_role("row", name="message 4321")).to_be_visible()
        assert page.get_by_role("row").count() < 300
        page.get_by_role("grid").focus()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="message 4322")).to_be_visible()

    def test_a_tail_shows_what_arrives(self, page: Any, site: Site) -> None:
        site.served.create("watched")
        go(page, site, "queue/watched")
        page.get_by_role("button", name="Live tail").click()
        expect(page.get_by_text("Waiting for messages.")).to_be_visible()
        site.served.send("watched", {"label": "just arrived"})
        expect(page.get_by_role("link", name="just arrived")).to_be_visible()

    def test_the_overview_is_live(self, page: Any, site: Site) -> None:
        site.served.create("counted")
        row = page.get_by_role("row", name="counted")
        expect(row).to_be_visible()
        site.served.send("counted", {}, {})
        expect(row.get_by_role("cell").first).to_have_text("2")

    def test_a_purge_needs_the_count(self, page: Any, site: Site) -> None:
        site.served.create("purged")
        site.served.send("purged", {}, {}, {})
        go(page, site, "queue/purged")
        page.get_by_role("button", name="Purge").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text("This ends 3 messages")).to_be_visible()
        field = dialog.get_by_label("Number of messages")
        field.fill("2")
        dialog.get_by_role("button", name="Purge").click()
        expect(dialog.get_by_role("alert")).to_contain_text("Type 3")
        assert site.served.count("purged") == 3
        field.fill("3")
        dialog.get_by_role("button", name="Purge").click()
        expect(page.get_by_text("The queue is empty.")).to_be_visible()


def test_a_group_of_dead_letters_is_counted_replayed_and_undone(page: Any, site: Site) -> None:
    """It is in both dead-letter queues; what comes after the count, and other groups, stay."""
    far = r"DIRECT=TCP:127.0.0.98\private$\dead"

    def died(queue: str, label: str, **how: bool) -> None:
        message = {"label": label, "negative_journaling": True}
        assert site.served.post(f"{at(queue)}/messages", message, **how).status_code == 201
        site.served.post(f"{at(queue)}/purge")

    site.served.create("again")
    died(far, "dead 1")
    died(far, "dead 2", transactional=True)
    died(f"{far}-other", "another group")
    go(page, site, "dead")
    group = page.locator("section").filter(
        has=page.get_by_role("heading", name=f"2 messages for {far}", exact=True)
    )
    expect(group.get_by_text("The message was deleted before it reached its queue.")).to_be_visible()
    group.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To another queue").fill("nowhere")
    dialog.get_by_role("button", name="Count").click()
    expect(dialog.get_by_role("alert")).to_contain_text("nowhere")
    dialog.get_by_label("To another queue").fill("again")
    dialog.get_by_role("button", name="Count").click()
    expect(dialog.get_by_role("status")).to_contain_text("2 messages")
    expect(dialog.get_by_role("listitem")).to_have_text(["dead 1", "dead 2"])
    died(far, "too late")
    dialog.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    expect(page.get_by_role("heading", name=f"1 message for {far}", exact=True)).to_be_visible()
    assert sorted(site.served.labels("again")) == ["dead 1", "dead 2"]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status").get_by_text("1 message put back into ;deadletter.")).to_be_visible()
    assert site.served.labels("again") == ["dead 2"]  # it has become another message
    assert site.served.labels(";deadletter") == ["dead 1", "another group", "too late"]
    for name in (";deadletter", ";deadxact"):
        site.served.post(f"{at(name)}/purge")


def test_keys_lead_to_pages(page: Any, site: Site) -> None:
    del site
    page.keyboard.press("g")
    page.keyboard.press("h")
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_label("Filter")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Filter")).to_be_focused()
    page.get_by_role("heading", name="Overview").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("dead letters")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_and_fits_a_phone(site: Site, new_page: Any, scheme: str) -> None:
    queue = f"checked-{scheme}"
    site.served.create(queue, label="A queue")
    site.served.send(queue, {"label": "a", "json": {"b": 1}}, {"label": "dead", "negative_journaling": True})
    site.served.send(r"DIRECT=TCP:127.0.0.99\private$\far", {"label": "far"})
    (held,) = site.served.receive(queue)
    page = new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    log_in(page, site, "admin")
    places = [
        "",
        f"queue/{queue}",
        f"queue/{queue}/{held['lookup_id']}",
        f"edit/{queue}/{held['lookup_id']}",
        f"why/{quote(held['id'], safe='')}",
        "send",
        "dead",
        "outgoing",
        "consumers",
        "transactions",
        "streams",
        "operations",
        "audit",
        "access",
        "health",
        f"queue/{queue}?view=search&pattern=a",
        f"queue/{queue}?view=properties",
    ]
    found: dict[str, Any] = {}
    for place in places:
        page.set_viewport_size({"width": 1280, "height": 800})
        go(page, site, place)
        page.locator("main h1").wait_for()
        expect(page.locator(".loading")).to_have_count(0)
        page.evaluate(AXE.read_text("utf-8"))
        violations = page.evaluate("rules => axe.run({runOnly: rules}).then(run => run.violations)", RULES)
        found |= {f"{place}: {each['id']}": [node["html"] for node in each["nodes"]] for each in violations}
        page.set_viewport_size({"width": 390, "height": 800})
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{place} scrolls sideways: {width} pixels"
    assert found == {}


def test_a_message_is_edited_and_resent_and_it_can_be_undone(page: Any, site: Site) -> None:
    site.served.create("edited")
    site.served.send("edited", {"label": "order 7", "text": "one\ntwo"})
    go(page, site, "queue/edited")
    page.get_by_role("row", name="order 7").click()
    page.get_by_role("button", name="Edit and resend").click()
    expect(page.get_by_role("button", name="Nothing is changed yet")).to_be_disabled()
    page.get_by_label("Label").fill("order 8")
    page.get_by_label("Body", exact=True).fill("one\nthree")
    expect(page.get_by_label("Changes of body")).to_contain_text("- two")
    expect(page.get_by_label("Changes of body")).to_contain_text("+ three")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.get_by_text("A message would arrive.")).to_be_visible()
    page.get_by_role("button", name="Send the edit").click()
    expect(page.get_by_text("Sent as ")).to_be_visible()
    assert site.served.labels("edited") == ["order 8"]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("1 message put back into edited.")).to_be_visible()
    assert site.served.labels("edited") == ["order 7", "order 8"]


def test_a_deletion_is_undone(page: Any, site: Site) -> None:
    site.served.create("emptied")
    site.served.send("emptied", {"label": "a"}, {"label": "b"})
    go(page, site, "queue/emptied")
    page.get_by_role("button", name="Delete all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("2 messages (")).to_be_visible()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("The queue is empty.")).to_be_visible()
    go(page, site, "operations")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="emptied"))
    row.get_by_role("button", name="Undo").click()
    expect(row.get_by_text("undone", exact=True)).to_be_visible()  # not "can be undone"
    assert site.served.labels("emptied") == ["a", "b"]
    go(page, site, "audit")
    expect(page.get_by_role("rowheader", name="undo").first).to_be_visible()


def test_why_tells_where_a_message_is(page: Any, site: Site) -> None:
    site.served.create("found")
    (identifier,) = site.served.send("found", {"label": "wanted"})
    go(page, site, "why")
    page.get_by_label("Message id").fill(identifier)
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_text("It waits in its queue for a reader.")).to_be_visible()
    page.get_by_role("link", name="Open it in found").click()
    expect(page.get_by_role("heading", name="wanted")).to_be_visible()
    page.get_by_role("link", name="Why is it here?").click()
    expect(page.get_by_text("It waits in its queue for a reader.")).to_be_visible()
    page.get_by_label("To queue").fill("nowhere")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("A message would not arrive.")).to_be_visible()


def test_an_editor_shows_hostile_text_as_text(page: Any, site: Site) -> None:
    site.served.create("hostile-edit")
    site.served.send("hostile-edit", {"label": HOSTILE, "text": HOSTILE})
    (message,) = site.served.get(f"{at('hostile-edit')}/messages").json()["messages"]
    go(page, site, f"edit/hostile-edit/{message['lookup_id']}")
    expect(page.get_by_label("Original body")).to_have_text(HOSTILE)
    page.get_by_label("Label").fill(f"{HOSTILE}!")
    expect(page.get_by_label("Changes of properties")).to_contain_text(HOSTILE)
    assert page.locator("img").count() == 0


def test_roles_of_the_editor(site: Site, new_page: Any) -> None:
    site.served.create("readonly")
    site.served.send("readonly", {"label": "x"})
    page = new_page()
    log_in(page, site, "read")
    go(page, site, "queue/readonly")
    expect(page.get_by_role("button", name="Delete all (needs the role receive)")).to_be_disabled()
    page.get_by_role("row", name="x").first.click()
    expect(
        page.get_by_role("button", name="Edit and resend (needs the role receive and send)")
    ).to_be_disabled()
