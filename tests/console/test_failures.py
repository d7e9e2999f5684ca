"""docs/where-is-my-message.md in the browser: five failures, from the symptom to the resent message."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from api.asked import at
from console.conftest import Site, expect, go, log_in, site_of
from data.served import until

FAR = r"DIRECT=OS:warehouse\private$"


class Sites(NamedTuple):
    shop: Site
    warehouse: Site

    def arrived(self, queue: str, label: str) -> None:
        """Waits until the warehouse has the message, and takes it."""
        until(lambda: label in self.warehouse.served.labels(queue))
        self.warehouse.served.receive(queue, limit=10, acknowledge="now")


class Desk(NamedTuple):
    """Both consoles, as an administrator has them open."""

    shop: Any
    warehouse: Any


@pytest.fixture(scope="module")
def sites(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    del browser  # without one, no daemon is needed
    with site_of(tmp_path_factory.mktemp("warehouse")) as warehouse:
        port = warehouse.served.start["address"].rpartition(":")[2]
        warehouse.served.create("orders")
        warehouse.served.create("payments", transactional=True)
        hosts = f'[hosts]\nwarehouse = "127.0.0.1:{port}"\n'
        with site_of(tmp_path_factory.mktemp("shop"), hosts) as shop:
            yield Sites(shop, warehouse)


@pytest.fixture
def desk(sites: Sites, new_page: Any) -> Desk:
    pages = []
    for site in sites:
        page = new_page(viewport={"width": 1280, "height": 800})
        log_in(page, site, "admin")
        pages.append(page)
    return Desk(*pages)


def refused(shop: Site, queue: str, label: str) -> str:
    """Sends in a transaction, and waits for the dead letter; the id of the message."""
    message = {"label": label, "negative_journaling": True}
    goal = at(rf"{FAR}\{queue}")
    answer = shop.served.post(f"{goal}/messages", message, transactional=True)
    until(lambda: label in shop.served.labels(";deadxact"))
    identifier: str = answer.json()["id"]
    return identifier


def ask_why(page: Any, site: Site, identifier: str) -> Any:
    go(page, site, "why")
    page.get_by_label("Message id").fill(identifier)
    page.get_by_role("button", name="Find").click()
    return page.get_by_role("status")


def replay(page: Any, site: Site, cause: str, to: str = "") -> None:
    go(page, site, "dead")
    page.locator("section").filter(has_text=cause).get_by_role("button", name="Replay").click()
    page.get_by_label("To another queue").fill(to)
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Count").click()
    expect(dialog.get_by_role("status")).to_contain_text("would go to")
    dialog.get_by_role("button", name="Replay").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("status").get_by_text("replayed.")).to_be_visible()


def test_the_computer_does_not_exist(sites: Sites, desk: Desk) -> None:
    wrong = r"DIRECT=OS:warehuose.invalid\private$\orders"
    sites.shop.served.send(wrong, {"label": "order 1"})
    page = desk.shop
    go(page, sites.shop, "outgoing")
    expect(page.get_by_text("Unknown computer name.")).to_be_visible()
    expect(page.get_by_text("Open the queue and move its messages to the right name")).to_be_visible()
    go(page, sites.shop, "why")
    page.get_by_label("To queue").fill(rf"{FAR}\orders")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("A message would arrive.")).to_be_visible()
    go(page, sites.shop, "outgoing")
    page.get_by_role("link", name=wrong).click()
    page.get_by_role("row", name="order 1").click()
    page.get_by_role("button", name="Move").click()
    page.get_by_label("To queue").fill(rf"{FAR}\orders")
    page.get_by_role("dialog").get_by_role("button", name="Move").click()
    sites.arrived("orders", "order 1")


def test_the_queue_does_not_exist(sites: Sites, desk: Desk) -> None:
    story = ask_why(desk.shop, sites.shop, refused(sites.shop, "invoices", "invoice 1"))
    expect(story.get_by_text("Create the queue on the destination computer, then replay.")).to_be_visible()
    desk.warehouse.get_by_role("button", name="Create queue").click()
    desk.warehouse.get_by_label("Name").fill("invoices")
    desk.warehouse.get_by_label("Transactional").check()
    desk.warehouse.get_by_role("button", name="Create", exact=True).click()
    expect(desk.warehouse.get_by_role("link", name="invoices")).to_be_visible()
    replay(desk.shop, sites.shop, "The destination queue does not exist.")
    sites.arrived("invoices", "invoice 1")


def test_the_wrong_kind_of_queue(sites: Sites, desk: Desk) -> None:
    story = ask_why(desk.shop, sites.shop, refused(sites.shop, "orders", "order 2"))
    expect(story.get_by_text("Send without a transaction, or use a transactional queue.")).to_be_visible()
    replay(desk.shop, sites.shop, "The message is transactional and the queue is not.", rf"{FAR}\payments")
    sites.arrived("payments", "order 2")


def test_it_came_too_late(sites: Sites, desk: Desk) -> None:
    shop = sites.shop.served
    shop.create("parcels")
    late = {"label": "order 3", "time_to_be_received": 1, "negative_journaling": True}
    (identifier,) = shop.send("parcels", late)
    until(lambda: "order 3" in shop.labels(";deadletter"))
    page = desk.shop
    story = ask_why(page, sites.shop, identifier)
    expect(story.get_by_text("It is a dead letter.")).to_be_visible()
    page.get_by_role("link", name="Open it in ;deadletter").click()
    expect(page.get_by_text("Dead letter: the message was not received in time")).to_be_visible()
    page.get_by_role("button", name="Edit and resend").click()
    page.get_by_text("More properties").click()
    page.get_by_label("Time to be received").fill("infinite")
    expect(page.get_by_label("Changes of properties")).to_contain_text("+ time to be received: infinite")
    page.get_by_role("button", name="Send the edit").click()
    expect(page.get_by_text("Sent as ")).to_be_visible()
    (message,) = shop.get(f"{at('parcels')}/messages").json()["messages"]
    assert (message["label"], "time_to_be_received" in message) == ("order 3", False)
    assert "order 3" not in shop.labels(";deadletter")


def test_the_sender_may_not(sites: Sites, desk: Desk) -> None:
    nobody = {"security": "D:(A;;GA;;;BA)"}
    sites.warehouse.served.ask("PATCH", at("payments"), json=nobody)
    story = ask_why(desk.shop, sites.shop, refused(sites.shop, "payments", "payment 1"))
    expect(story.get_by_text("Allow the sender to write to the queue, then replay.")).to_be_visible()
    page = desk.warehouse
    go(page, sites.warehouse, "queue/payments?view=properties")
    page.get_by_role("button", name="Add an entry").click()
    expect(page.get_by_label("Send, entry 2")).to_be_checked()
    page.get_by_role("button", name="Save 1 change").click()
    expect(page.get_by_role("button", name="Nothing is changed yet")).to_be_visible()
    replay(desk.shop, sites.shop, "The sender may not write to the queue.")
    sites.arrived("payments", "payment 1")
