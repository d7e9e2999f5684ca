"""Choosing rows, acting on many messages, properties and rights, transactions, access: in a real browser."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tiercel
from api.asked import at
from console.conftest import Site, expect, go, log_in, site_of
from tiercel.security.tokens import Bearer, Role, digest_of, new_token
from tiercel.server import token_file


@pytest.fixture
def queue(site: Site) -> Callable[..., str]:
    """Makes a queue with messages of these labels."""

    def make(*labels: str, **properties: Any) -> str:
        name = f"q{uuid.uuid4().hex[:8]}"
        site.served.create(name, **properties)
        site.served.send(name, *({"label": each} for each in labels))
        return name

    return make


class TestChosenRows:
    def test_are_moved(self, page: Any, site: Site, queue: Callable[..., str]) -> None:
        source, goal = queue("a", "b", "c"), queue()
        go(page, site, f"queue/{source}")
        expect(page.get_by_label("Choose message 1")).to_be_enabled()
        page.get_by_role("grid").focus()
        for key in ("x", "j", "j", "x"):
            page.keyboard.press(key)
        expect(page.get_by_text("2 chosen")).to_be_visible()
        page.get_by_role("button", name="Move", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("To queue").fill(goal)
        dialog.get_by_role("button", name="Count").click()
        expect(dialog.get_by_role("status")).to_contain_text(f"go to {goal}")
        expect(dialog.get_by_role("listitem")).to_have_text(["a", "c"])
        assert site.served.labels(source) == ["a", "b", "c"], "a dry run moves nothing"
        dialog.get_by_role("button", name="Move").click()
        expect(page.get_by_text(f"2 messages of {source} moved.")).to_be_visible()
        assert (site.served.labels(source), site.served.labels(goal)) == (["b"], ["a", "c"])
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text(f"2 messages put back into {source}.")).to_be_visible()
        assert (site.served.labels(source), site.served.labels(goal)) == (["a", "b", "c"], [])

    def test_are_deleted_with_a_way_back(self, page: Any, site: Site, queue: Callable[..., str]) -> None:
        source = queue("a", "b", "c")
        go(page, site, f"queue/{source}")
        page.get_by_label("Choose message 2").check()
        page.get_by_role("button", name="Delete", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text("For 24 hours this can be undone.")).to_be_visible()
        dialog.get_by_role("button", name="Delete").click()
        expect(page.get_by_text(f"1 message of {source} deleted.")).to_be_visible()
        assert site.served.labels(source) == ["a", "c"]
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("1 message put back")).to_be_visible()
        assert site.served.labels(source) == ["a", "b", "c"]

    def test_a_wrong_destination_moves_nothing(
        self, page: Any, site: Site, queue: Callable[..., str]
    ) -> None:
        source = queue("a")
        go(page, site, f"queue/{source}")
        page.get_by_role("button", name="Move all").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("To queue").fill("nowhere")
        dialog.get_by_role("button", name="Count").click()
        expect(dialog.get_by_role("alert")).to_contain_text("no such queue exists")
        assert site.served.labels(source) == ["a"]

    def test_of_a_journal_end_for_good_after_the_count(
        self, page: Any, site: Site, queue: Callable[..., str]
    ) -> None:
        source = queue("a", "b", journaling=True)
        site.served.receive(source, limit=2, acknowledge="now")
        go(page, site, f"queue/{source}%3Bjournal")
        page.get_by_label("Choose message 1").check()
        page.get_by_label("Choose message 2").check()
        page.get_by_role("button", name="Delete", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text("end for good. It cannot be undone.")).to_be_visible()
        dialog.get_by_label("Number of messages").fill("3")
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog.get_by_role("alert")).to_contain_text("Type 2")
        assert site.served.count(f"{source};journal") == 2
        dialog.get_by_label("Number of messages").fill("2")
        dialog.get_by_role("button", name="Delete").click()
        expect(page.get_by_text("The queue is empty.")).to_be_visible()
        assert site.served.count(f"{source};journal") == 0

    def test_found_by_a_search_are_copied(self, page: Any, site: Site, queue: Callable[..., str]) -> None:
        source, goal = queue("apple", "pear", "apricot"), queue()
        go(page, site, f"queue/{source}?view=search&pattern=^ap")
        expect(page.get_by_text("2 matches in 3 messages")).to_be_visible()
        page.get_by_role("button", name="Choose these 2").click()
        page.get_by_role("button", name="Copy", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("To queue").fill(goal)
        dialog.get_by_role("button", name="Count").click()
        dialog.get_by_role("button", name="Copy").click()
        expect(page.get_by_text("2 messages of")).to_be_visible()
        assert (site.served.labels(goal), site.served.count(source)) == (["apple", "apricot"], 3)


def test_a_filter_asks_for_fields(page: Any, site: Site, queue: Callable[..., str]) -> None:
    name = queue()
    site.served.send(
        name, *({"label": f"order {n}", "priority": n, "json": {"total": 50 * n}} for n in range(5))
    )
    go(page, site, f"queue/{name}?view=search")
    field = page.get_by_label("Filter or pattern")
    for text, count in [("priority>=2 json.total>100", "2 matches"), ("label:nobody", "0 matches")]:
        field.fill(text)
        field.press("Enter")
        expect(page.get_by_text(f"{count} in 5 messages")).to_be_visible()
    field.fill("priority:high")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_text("How to filter").click()
    expect(page.get_by_text("negated")).to_be_visible()


def test_the_life_of_a_message(page: Any, site: Site, queue: Callable[..., str]) -> None:
    name, goal = queue("well-travelled"), queue()
    (message,) = site.served.get(f"{at(name)}/messages").json()["messages"]
    site.served.post(f"{at(name)}/move", {"to": goal, "lookup_ids": [message["lookup_id"]]})
    go(page, site, f"queue/{goal}")
    page.get_by_role("row", name="well-travelled").click()
    page.get_by_role("button", name="Life").click()
    expect(page.get_by_role("listitem").filter(has_text=f"moved to {goal}")).to_be_visible()
    page.get_by_role("link", name="Why is it here?").click()
    expect(page.get_by_role("listitem").filter(has_text=f"moved to {goal}")).to_be_visible()
    site.served.receive(goal, acknowledge="now")
    page.reload()
    expect(page.get_by_text("It was received.")).to_be_visible()


def test_all_messages_are_moved(page: Any, site: Site, queue: Callable[..., str]) -> None:
    source, goal = queue("a", "b"), queue()
    go(page, site, f"queue/{source}")
    page.get_by_role("button", name="Move all").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To queue").fill(goal)
    dialog.get_by_role("button", name="Count").click()
    dialog.get_by_role("button", name="Move").click()
    expect(page.get_by_text("The queue is empty.")).to_be_visible()
    assert site.served.labels(goal) == ["a", "b"]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text(f"2 messages put back into {source}.")).to_be_visible()
    assert site.served.labels(source) == ["a", "b"]


def test_matching_messages_are_deleted_and_it_can_be_undone(
    page: Any, site: Site, queue: Callable[..., str]
) -> None:
    name = queue("order 1", "test 1", "order 2")
    go(page, site, f"queue/{name}?view=search&pattern=label:order")
    page.get_by_role("button", name="Delete matching").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("listitem")).to_have_text(["order 1", "order 2"])
    site.served.send(name, {"label": "order 3"})
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text(f"2 messages of {name} deleted.")).to_be_visible()
    assert site.served.labels(name) == ["test 1", "order 3"], "none that arrived after the dry run"
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("2 messages put back")).to_be_visible()
    assert site.served.labels(name) == ["order 1", "test 1", "order 2", "order 3"]


def test_work_in_the_background_is_paused_resumed_and_cancelled(
    page: Any, site: Site, queue: Callable[..., str]
) -> None:
    source, goal = queue(*(f"message {number}" for number in range(20))), queue()
    go(page, site, f"queue/{source}")
    page.get_by_role("button", name="Move all").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To queue").fill(goal)
    dialog.get_by_role("button", name="Count").click()
    dialog.get_by_label("At most, messages per second").fill("1")
    dialog.get_by_role("button", name="Move").click()
    page.get_by_role("link", name="Progress").click()
    row = page.get_by_role("row").filter(has_text=f"to {goal}")
    row.get_by_role("button", name="Pause").click()
    expect(row.get_by_text("paused")).to_be_visible()
    row.get_by_role("button", name="Resume").click()
    expect(row.get_by_role("progressbar")).to_be_visible()
    row.get_by_role("button", name="Cancel").click()
    expect(row.get_by_text("cancelled").first).to_be_visible()
    assert site.served.count(source) + site.served.count(goal) == 20
    assert site.served.count(source) > 0


def test_a_link_keeps_search_and_filter(page: Any, site: Site, queue: Callable[..., str]) -> None:
    name = queue("kept")
    page.get_by_label("Filter").fill(name)
    page.get_by_label("Only with messages").check()
    assert page.url.endswith(f"#/?filter={name}&full=1")
    page.reload()
    expect(page.get_by_role("rowheader")).to_have_count(1)
    go(page, site, f"queue/{name}")
    page.get_by_role("button", name="Search").click()
    page.get_by_label("Pattern").fill("k.pt")
    page.get_by_label("Pattern").press("Enter")
    expect(page.get_by_role("link", name="kept")).to_be_visible()
    assert page.url.endswith("?view=search&pattern=k.pt")
    page.reload()
    expect(page.get_by_role("link", name="kept")).to_be_visible()


def test_the_order_of_arrival(page: Any, site: Site, queue: Callable[..., str]) -> None:
    name = queue()
    site.served.send(name, {"label": "first", "priority": 1}, {"label": "urgent", "priority": 7})
    go(page, site, f"queue/{name}")
    rows = page.get_by_role("row").filter(has=page.get_by_role("checkbox"))
    expect(rows).to_contain_text(["urgent", "first"])
    page.get_by_label("Order").select_option("arrival")
    expect(rows).to_contain_text(["first", "urgent"])
    page.reload()
    expect(rows).to_contain_text(["first", "urgent"])
    page.get_by_label("Row or time").fill("2")
    page.get_by_role("button", name="Jump").click()
    expect(page.get_by_role("row", name="urgent")).to_have_class("row active")


def test_the_name_of_a_remote_queue_is_put_together(page: Any, site: Site, queue: Callable[..., str]) -> None:
    known = queue()
    go(page, site, "send")
    field = page.get_by_label("To queue")
    expect(page.locator(f"datalist option[value={known}]")).to_have_count(1)
    page.get_by_text("A queue of another computer").click()
    page.get_by_label("Computer name or IP address").fill("server-b")
    page.get_by_label("Its queue").fill("orders")
    expect(field).to_have_value(r"DIRECT=OS:server-b\private$\orders")
    page.get_by_label("Computer name or IP address").fill("192.0.2.7")
    page.get_by_label("Its queue").fill(r"public")
    expect(field).to_have_value(r"DIRECT=TCP:192.0.2.7\private$\public")
    page.get_by_label("Label").fill("far away")
    page.get_by_role("main").get_by_role("button", name="Send").click()
    expect(page.get_by_text("Sent to DIRECT=TCP:192.0.2.7")).to_be_visible()
    assert site.served.labels(r"DIRECT=TCP:192.0.2.7\private$\public") == ["far away"]


def test_json_is_shown_on_lines_and_as_it_was_sent(page: Any, site: Site, queue: Callable[..., str]) -> None:
    name = queue()
    sent = '{"a":[],"big":12345678901234567890.10,"t":"x,{y}\\"","n":{"k":null}}'
    site.served.send(name, {"label": "json", "text": sent})
    go(page, site, f"queue/{name}")
    page.get_by_role("row", name="json").click()
    body = page.get_by_label("Body", exact=True)
    lines = [
        "{",
        '  "a": [],',
        '  "big": 12345678901234567890.10,',
        '  "t": "x,{y}\\"",',
        '  "n": {',
        '    "k": null',
        "  }",
        "}",
    ]
    expect(body).to_have_text("\n".join(lines))
    page.get_by_role("button", name="As sent").click()
    expect(body).to_have_text(sent)


def test_jump_to_a_time(page: Any, site: Site, queue: Callable[..., str]) -> None:
    name = queue(*(f"message {number}" for number in range(3)))
    go(page, site, f"queue/{name}")
    field = page.get_by_label("Row or time")
    field.fill("soon")
    page.get_by_role("button", name="Jump").click()
    expect(page.get_by_role("alert")).to_contain_text("Give a row")
    tomorrow = datetime.now(UTC) + timedelta(days=2)
    for text, label in [
        (f"{tomorrow:%Y-%m-%d %H:%M}", "message 2"),
        ("2020-01-01 00:00", "message 0"),
        ("2", "message 1"),
    ]:
        field.fill(text)
        page.get_by_role("button", name="Jump").click()
        expect(page.locator(".row.active")).to_contain_text(label)


class TestEditor:
    def test_a_copy_leaves_the_original(self, page: Any, site: Site, queue: Callable[..., str]) -> None:
        name = queue("order 7")
        go(page, site, f"queue/{name}")
        page.get_by_role("row", name="order 7").click()
        page.get_by_role("button", name="Copy to editor").click()
        expect(page.get_by_role("heading", name="Copy and send")).to_be_visible()
        page.get_by_label("Label").fill("order 8")
        page.get_by_role("button", name="Send the copy").click()
        expect(page.get_by_text("Sent as ")).to_be_visible()
        assert site.served.labels(name) == ["order 7", "order 8"]

    def test_binary_bodies_are_edited_in_hexadecimal(
        self, page: Any, site: Site, queue: Callable[..., str]
    ) -> None:
        name = queue()
        site.served.send(name, {"label": "bytes", "body": "AAEC/w=="})
        go(page, site, f"queue/{name}")
        page.get_by_role("row", name="bytes").wait_for()
        page.get_by_role("grid").focus()
        page.keyboard.press("e")
        body = page.get_by_label("Body, hexadecimal")
        expect(body).to_have_value("00 01 02 ff")
        body.fill("00 01 zz")
        page.get_by_role("button", name="Send the edit").click()
        expect(page.get_by_role("alert")).to_contain_text("hexadecimal digits")
        body.fill("ff 00")
        page.get_by_role("button", name="Send the edit").click()
        expect(page.get_by_text("Sent as ")).to_be_visible()
        (message,) = site.served.get(f"{at(name)}/messages").json()["messages"]
        assert message["body"] == "/wA="


class TestProperties:
    def test_are_changed(self, page: Any, site: Site, queue: Callable[..., str]) -> None:
        name = queue()
        go(page, site, f"queue/{name}?view=properties")
        expect(page.get_by_role("button", name="Nothing is changed yet")).to_be_disabled()
        page.get_by_label("Label").fill("Orders of the shop")
        page.get_by_label("Quota, KiB").fill("64")
        page.get_by_label("Keep copies of received messages").check()
        page.get_by_label("Encryption").select_option("body")
        page.get_by_role("button", name="Save 4 changes").click()
        expect(page.get_by_role("button", name="Nothing is changed yet")).to_be_visible()
        expect(page.get_by_text("4 properties of")).to_be_visible()
        found = site.served.get(at(name)).json()
        wanted = {"label": "Orders of the shop", "quota_kib": 64, "journaling": True, "privacy_level": "body"}
        assert {key: found[key] for key in wanted} == wanted
        page.get_by_label("Quota, KiB").fill("")
        page.get_by_role("button", name="Save 1 change").click()
        expect(page.get_by_text("1 property of")).to_be_visible()
        assert site.served.get(at(name)).json()["quota_kib"] is None

    def test_what_a_queue_manager_refuses_is_said(
        self, page: Any, site: Site, queue: Callable[..., str]
    ) -> None:
        go(page, site, f"queue/{queue()}?view=properties")
        page.get_by_label("Multicast address").fill("not an address")
        page.get_by_role("button", name="Save 1 change").click()
        expect(page.get_by_role("alert")).to_be_visible()

    def test_rights_are_a_table(self, page: Any, site: Site, queue: Callable[..., str]) -> None:
        name = queue(security="D:(A;;QUEUE_GENERIC_ALL;;;BA)(A;;WRITE_MESSAGE;;;WD)")
        go(page, site, f"queue/{name}?view=properties")
        expect(page.get_by_label("Account 2")).to_have_value("WD")
        expect(page.get_by_label("Send, entry 2")).to_be_checked()
        page.get_by_label("Receive, entry 2").check()
        page.get_by_role("button", name="Add an entry").click()
        page.get_by_label("Account 3").select_option("Anonymous")
        page.get_by_role("button", name="Add an entry").click()
        page.get_by_label("Account 4", exact=True).select_option("Another account, by name or SID")
        page.get_by_label("Name or SID of account 4").fill("S-1-5-21-1-2-3-1000")
        page.get_by_label("Name or SID of account 4").press("Tab")
        page.get_by_label("Kind of entry 3").select_option("deny")
        page.get_by_role("button", name="Save 1 change").click()
        expect(page.get_by_text("1 property of")).to_be_visible()
        text = site.served.get(at(name)).json()["security"]
        for entry in (
            "(A;;QUEUE_GENERIC_ALL;;;BA)",
            "RECEIVE_MESSAGE|WRITE_MESSAGE;;;WD)",
            "(D;;WRITE_MESSAGE;;;AN)",
            "(A;;WRITE_MESSAGE;;;S-1-5-21-1-2-3-1000)",
        ):
            assert entry in text
        page.get_by_text("As text (SDDL)").click()
        page.get_by_label("As text (SDDL)").fill("D:(nonsense)")
        expect(page.get_by_text("The table cannot show this list")).to_be_visible()
        page.get_by_role("button", name="Save 1 change").click()
        expect(page.get_by_role("alert")).to_contain_text("is not written like")

    def test_a_queue_is_deleted_after_the_count(
        self, page: Any, site: Site, queue: Callable[..., str]
    ) -> None:
        name = queue("a", "b")
        go(page, site, f"queue/{name}?view=properties")
        page.get_by_role("button", name="Delete queue").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Number of messages").fill("1")
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog.get_by_role("alert")).to_contain_text("Type 2")
        dialog.get_by_label("Number of messages").fill("2")
        dialog.get_by_role("button", name="Delete").click()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        assert site.served.get(at(name)).status_code == 404


def test_a_token_is_revoked(page: Any, site: Site, new_page: Any) -> None:
    token = new_token()
    bearer = Bearer("brief", frozenset({Role.READ}), digest_of(token))
    token_file.change(site.token_file, lambda tokens: tokens.with_bearer(bearer))
    other = new_page()
    log_in(other, site._replace(tokens={"brief": token}), "brief")
    go(page, site, "access")
    row = page.get_by_role("row", name="brief")
    expect(row).to_contain_text("1 browser")
    expect(page.get_by_role("row", name="admin").get_by_text("this login")).to_be_visible()
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Token brief revoked.")).to_be_visible()
    expect(row).to_have_count(0)
    other.reload()
    expect(other.get_by_label("Token")).to_be_visible()


def test_a_transaction_in_doubt_is_decided(tmp_path: Path, new_page: Any) -> None:
    with tiercel.open(tmp_path / "data") as qm:
        orders = qm.create_queue(r".\private$\orders", transactional=True)
        for body in (b"committed", b"aborted"):
            transaction = qm.begin_transaction()
            orders.send(body, transaction=transaction)
            qm.driver.run(partial(qm.driver.engine.resource_manager.prepare, transaction.id))
    with site_of(tmp_path) as site:
        page = new_page()
        log_in(page, site, "admin")
        go(page, site, "transactions")
        for left, how in [(2, "Commit"), (1, "Abort")]:
            expect(page.get_by_role("button", name=how)).to_have_count(left)
            expect(page.get_by_role("cell", name="1 send")).to_have_count(left)
            page.get_by_role("button", name=how).first.click()
            page.get_by_role("dialog").get_by_role("button", name=how).click()
        expect(page.get_by_text("No transaction is in doubt.")).to_be_visible()
        assert site.served.count("orders") == 1


def test_keys_go_along_a_table(page: Any, site: Site, queue: Callable[..., str]) -> None:
    name = queue("only")
    page.get_by_label("Filter").fill(name)
    expect(page.get_by_role("rowheader")).to_have_count(1)
    page.get_by_role("heading", name="Overview").click()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name="only")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="only")).to_be_visible()
    page.keyboard.press("e")
    expect(page.get_by_role("heading", name="Edit and resend")).to_be_visible()
    del site


def test_a_body_is_downloaded(page: Any, site: Site, queue: Callable[..., str]) -> None:
    name = queue()
    site.served.send(name, {"label": "order/7", "json": {"a": 1}})
    go(page, site, f"queue/{name}")
    page.get_by_role("row", name="order/7").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "order_7.json"
    assert Path(download.value.path()).read_bytes() == b'{"a": 1}'
