"""A week of orders for `tiercel import`: some are sent twice, some are wrong, and Porto sends XML."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

MONDAY = datetime(2026, 11, 9, tzinfo=UTC)
SHOPS = {"Hamburg": 5, "Lyon": 3, "Porto": 2}
PRODUCTS = {"tea": ("4.90", 8), "coffee": ("7.50", 6), "mug": ("12.00", 3), "kettle": ("39.95", 1)}


def orders(count: int, seed: int = 19) -> Iterator[str]:
    """The bodies of so many orders, about one in twenty of them twice, and a few that nobody can use."""
    draw = random.Random(seed)  # noqa: S311  # the same week every time
    for number in range(1, count + 1):
        body = _body(draw, number)
        yield body
        if draw.random() < 0.05:  # a sender that heard no answer
            yield body
        if draw.random() < 0.01:
            yield body.replace("quantity", "quantiy")


def _body(draw: random.Random, number: int) -> str:
    shop = draw.choices(list(SHOPS), list(SHOPS.values()))[0]
    product = draw.choices(list(PRODUCTS), [weight for _, weight in PRODUCTS.values()])[0]
    day = draw.choices(range(7), (4, 4, 5, 5, 8, 9, 3))[0]
    placed = MONDAY + timedelta(days=day, hours=min(max(draw.gauss(14, 3.5), 7), 21))
    order = {
        "order_no": number,
        "placed": placed.isoformat(timespec="seconds"),
        "shop": shop,
        "product": product,
        "quantity": draw.choices((1, 2, 3, 6), (6, 3, 2, 1))[0],
        "price": PRODUCTS[product][0],
    }
    if shop == "Porto":
        return "<Order>" + "".join(f"<{name}>{value}</{name}>" for name, value in order.items()) + "</Order>"
    return json.dumps(order)


def line(body: str) -> str:
    """A message for `tiercel import`."""
    return json.dumps({"text": body, "label": "order", "delivery": "recoverable"})


if __name__ == "__main__":
    for each in orders(2000):
        print(line(each))
