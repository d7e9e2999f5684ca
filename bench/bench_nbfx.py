"""How fast binary envelopes are read and written, beside lxml parsing the same document as text.

The rates are calls a second of CPU time of one core. lxml is shown where it is installed.
"""

from importlib import import_module
from importlib.util import find_spec
from uuid import UUID
from xml.etree import ElementTree as ET

from measure import Operation, rates

from tiercel import nbfx, wcf

ROUNDS, CALLS = 9, 500
LINES = [{"Item": f"tea {n}", "Count": n, "Price": 12.5 + n, "Sku": f"SKU-{n:05}"} for n in range(4)]
ORDER = {"Id": 4711, "Customer": "Miller & Sons", "Street": "1 Main Street, Springfield", "Paid": False}


def envelope() -> list[nbfx.Event]:
    """An order with four lines: 30 elements, about 1 KiB."""
    endpoint = wcf.Endpoint(
        None, "net.msmq://warehouse.example.org/private/orders", new_id=lambda: UUID(int=7)
    )
    order = {**ORDER, "Lines": wcf.Items("Line", LINES), "Note": "x" * 400}
    action = "http://example.org/warehouse/IOrders/Submit"
    return list(endpoint.envelope(action, {"order": order}, namespace="http://example.org/warehouse"))


def main() -> None:
    events = envelope()
    data, text = nbfx.encode(events), nbfx.to_text(events).encode()
    elements = nbfx.to_elements(events).root
    operations: dict[str, Operation] = {
        "decode to events": lambda: list(nbfx.decode(data)),
        "encode from events": lambda: nbfx.encode(events),
        "decode to elements": lambda: nbfx.to_elements(nbfx.decode(data)),
        "encode from elements": lambda: nbfx.encode(nbfx.from_elements(elements)),
        "ElementTree, text": lambda: ET.fromstring(text),  # noqa: S314 - our own text
    }
    if find_spec("lxml") is not None:
        etree = import_module("lxml.etree")
        operations["lxml, text"] = lambda: etree.fromstring(text)
    count = sum(1 for _ in elements.iter())
    print(
        f"an envelope of {count} elements, {len(data)} bytes binary, {len(text)} bytes text; calls a second"
    )
    for name, rate in rates(operations, ROUNDS, CALLS).items():
        print(f"  {name:24}{rate:12,.0f}")


if __name__ == "__main__":
    main()
