"""Messages whose elements say anything: whatever becomes of them, the queue manager goes on.

Errors of a message are for its sender. An error later, while its receipt is written or sent, or while it is
received or purged, would stop the daemon, and again after a restart.
"""

import re
from random import Random
from xml.sax.saxutils import escape

import pytest

from tiercel.engine.machine import Write
from tiercel.model.errors import IoTimeoutError
from tiercel.srmp.actions import Dial
from tiercel.store.memory_store import MemoryStore

from .test_bad_input import with_envelope
from .vectors import document
from .world import Side

LEAF = re.compile(r"<(?P<name>\w+)>[^<]*</(?P=name)>")
SAYS_ANYTHING = {
    "action",
    "via",
    "sendTo",
    "sendReceiptsTo",
    "Name",
    "DestinationMqf",
    "AdminMqf",
    "ResponseMqf",
}
HOSTS = ["h", "漢字", "a\u2100b", "ß..x", "é:8080", "[::1%25e]", "127.0.0.1:0", "machine2", "\x7f", "x" * 80]
QUEUES = [
    "orders",
    "tx",
    "order_queue$",
    "q;journal",
    "q;retry",
    "q?\u0130 #",
    "%41",
    "漢",
    "none",
    "q" * 120,
]
TEXTS = ["", "MSMQ:", "\u202e😀", "\ufeff", "a\u0301\x85\u2028", "0", "4294967295", "255", "x" * 240]


def text(random: Random) -> str:
    url = f"{random.choice(['http', 'HTTPS'])}://{random.choice(HOSTS)}/msmq/private$/{random.choice(QUEUES)}"
    name = rf"MSMQ:DIRECT=OS:{random.choice(HOSTS)}\private$\{random.choice(QUEUES)}"
    return random.choice(
        [url, url, name, f"{url} {name}", "MSMQ:MULTICAST=234.1.1.1:8001", random.choice(TEXTS)]
    )


def request(random: Random, number: int) -> bytes:
    name = random.choice(
        ["06_all_properties", "04a_stream_msg1", "03a_receipts_request", "04b_stream_receipt1"]
    )
    queue = "tx" if name == "04a_stream_msg1" else "orders"
    data = re.sub(r"<id>uuid:\d+@", f"<id>uuid:{number}@", document(name).decode())
    data = re.sub(r"<to>[^<]*</to>", f"<to>http://machine2/msmq/private$/{queue}</to>", data)
    leaves = [leaf for leaf in LEAF.finditer(data) if leaf["name"] in SAYS_ANYTHING or random.random() < 0.05]
    for leaf in sorted(random.sample(leaves, random.randint(1, 2)), key=re.Match.start, reverse=True):
        tag = leaf["name"]
        data = f"{data[: leaf.start()]}<{tag}>{escape(text(random))}</{tag}>{data[leaf.end() :]}"
    return with_envelope(name, data.encode()).encode()


def answer_everything(side: Side, random: Random) -> None:
    while side.actions:
        match side.actions.pop(0):
            case Dial(number) if random.random() < 0.8:
                side.run(lambda number=number: side.srmp.connected(number, "192.0.2.8"))  # type: ignore[misc]
            case Dial(number):
                side.run(lambda number=number: side.srmp.disconnected(number))  # type: ignore[misc]
            case Write(number):
                side.answer(number, random.choice([200, 200, 400, 503]))


@pytest.mark.parametrize("seed", range(3))
def test_no_message_stops_the_queue_manager(seed: int) -> None:
    random, store = Random(seed), MemoryStore()
    side, taken = Side(name="MACHINE2", store=store), 0
    boxes = [side.create("orders"), side.create("tx", transactional=True)]
    for number in range(150):
        before = [box.state.count for box in boxes]
        status = side.post(request(random, number))
        after = [box.state.count for box in boxes]
        assert status in {200, 400, 500}
        assert status == 200 or after == before
        taken += after != before
        match random.randrange(8):
            case 0 | 1:
                for box in boxes:
                    try:
                        box.receive()
                    except IoTimeoutError:
                        assert not box.state.count
            case 2:
                for box in boxes:
                    box.purge()
            case 3:
                side.sleep(31)
            case 4 | 5:
                answer_everything(side, random)
            case 6:
                side = Side(name="MACHINE2", store=store)
                boxes = [side.box("orders"), side.box("tx")]
    assert taken > 10
