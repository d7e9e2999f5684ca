r"""The story of the README on one screen: sent on one machine, received on another, loaded by Spark.

Two queue managers on one computer stand for two machines: the shop on 127.0.0.1 and the warehouse on
127.0.0.2, which is killed part-way. Meanwhile, Spark starts.
"""

import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import chdir, redirect_stdout, suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pyspark.sql import SparkSession

import tiercel
from tiercel.pipeline.config import parse
from tiercel.pipeline.reports import make
from tiercel.pipeline.running import run
from tiercel.pipeline.spark import open_session
from tiercel.pipeline.tables import open_table

ROOT = Path(__file__).resolve().parents[1]
SHOP, WAREHOUSE = "127.0.0.1", "127.0.0.2"
USER, PASSWORD, SID = r"EXAMPLE\reader", "a long secret", "S-1-5-21-1-2-3-1001"
RIGHTS = f"O:{SID}D:(A;;GA;;;{SID})(A;;0x4;;;WD)"  # one account may do everything, everyone may send
FAR = rf"DIRECT=TCP:{WAREHOUSE}\private$\orders"
CERTIFICATE, KEY = "certificate.pem", "key.pem"
PACKET = "tests/vectors/mqqb/frame7_user_message.bin"
START = Path.cwd()
TIERCEL = (sys.executable, "-m", "tiercel")
WIDTH = 118  # longer lines are truncated
OPTIONS = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
MANY = 600

PIPELINE = r"""
[pipeline]
name = "demo"
[source]
url = "http://127.0.0.1:{port}"
queues = ['.\private$\orders']
[decode]
expect = "json"
[[table]]
format = "delta"
path = "lake/messages"
[[table]]
format = "delta"
path = "lake/orders"
sql = '''
select label, get_json_object(body_json, '$.item') as item, sent_time, arrived_time,
       cast(get_json_object(body_json, '$.amount') as decimal(10, 2)) as amount
from messages
'''
[quarantine]
format = "parquet"
path = "lake/quarantine"
"""


class Machine:
    """A queue manager in a separate process."""

    def __init__(self, name: str, host: str, ports: list[int]) -> None:
        self.name = name
        self._config = f"{name}.toml"
        is_read_from = str(host == WAREHOUSE).lower()
        Path(self._config).write_text(
            f'listen = {{ host = "{host}", port = {ports[0]} }}\n'
            f"binary = {{ port = {ports[0]}, retry_ms = 100, retry_max_ms = 500 }}\n"
            f"data = {{ enabled = {is_read_from}, port = {ports[1]} }}\n"
            f"[remote_read]\nenabled = {is_read_from}\nport = {ports[2]}\n"
            'least_level_local = "privacy" # as for readers of other computers\n'
            '[accounts]\nfile = "accounts"\n[log]\nlevel = "error"\n'
            f'[api]\nenabled = true\nhost = "{host}"\nport = {ports[4]}\n'
            f'[srmp]\nenabled = true\nhost = "{host}"\nhttp = false\nhttps_port = {ports[3]}\n'
            f'tls_certificate = "{CERTIFICATE}"\ntls_key = "{KEY}"\nca = "{CERTIFICATE}"\n',
            "utf-8",
        )

    def start(self) -> None:
        words = ("serve", "--data", self.name, "--config", self._config)
        self._process = subprocess.Popen((*TIERCEL, *words))  # noqa: S603  # ours
        while not self._is_there():
            time.sleep(0.02)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)
        self._process.wait()

    def add_reader(self) -> None:
        words = ("user", "add", "--config", self._config, "--sid", SID, USER)
        command(*words, show=False, typed=f"{PASSWORD}\n")

    def count(self) -> int:
        return int(json.loads(command("count", "orders", "--json", "--data", self.name, show=False))["count"])

    def _is_there(self) -> bool:
        with socket.socket(socket.AF_UNIX) as door:
            return door.connect_ex(f"{self.name}/tiercel.sock") == 0


def say(title: str) -> None:
    print(f"\n{title}", flush=True)


def command(*words: str, show: bool = True, typed: str = "") -> str:
    """Run a `tiercel` command line and return its output."""
    if show:
        print(f"  $ tiercel {shlex.join(words)}", flush=True)
    ended = subprocess.run(  # noqa: S603  # ours
        (*TIERCEL, *words), input=typed, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def show(text: str, lines: int = 100) -> None:
    print("\n".join(f"  {line[:WIDTH]}" for line in text.splitlines()[:lines]), flush=True)


def survive() -> None:
    say("1. A program with an embedded queue manager is killed during a transaction.")
    program = str(ROOT / "examples" / "survive.py")
    ended = subprocess.run((sys.executable, program), capture_output=True, text=True, check=True)  # noqa: S603
    show("\n".join(line.strip() for line in ended.stdout.splitlines() if line.startswith("  ")))


def exchange(warehouse: Machine) -> None:
    say(f"2. Two machines: the shop ({SHOP}) sends, the warehouse ({WAREHOUSE}) is killed and started again.")
    command("create", "orders", "--transactional", f"security={RIGHTS}", "--data", "warehouse", show=False)
    send = ("send", FAR, "--transactional", "--data", "shop", "--label")
    command(*send, "order 1", '{"item": "tea", "amount": 7.5}')
    while warehouse.count() < 1:
        time.sleep(0.05)
    warehouse.end(signal.SIGKILL)
    command(*send, "order 2", '{"item": "ink", "amount": 3.2}')
    waiting = json.loads(command("outgoing", "--json", "--data", "shop", show=False))["count"]
    print(f"  the warehouse was killed before order 2; not confirmed at the shop: {waiting}; it restarts")
    warehouse.start()
    while warehouse.count() < 2:
        time.sleep(0.05)
    show(command("tail", "orders", "--data", "warehouse"))


def post(port: int) -> None:
    say("3. The same over HTTPS, as a sender outside the firewall would do it.")
    command("create", "notes", "--data", "warehouse", show=False)
    url = f"DIRECT=HTTPS://{WAREHOUSE}:{port}/msmq/private$/notes"
    command("send", url, "closed on Monday", "--recoverable", "--data", "shop")
    command("peek", "notes", "--wait", "30", "--data", "warehouse", show=False)
    show(command("tail", "notes", "--data", "warehouse"))


def certify() -> None:
    """A certificate that vouches for itself; a real one comes from an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "warehouse")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(WAREHOUSE))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    form, protection = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    Path(CERTIFICATE).write_bytes(certificate.public_bytes(encoding))
    Path(KEY).touch(0o600)
    Path(KEY).write_bytes(key.private_bytes(encoding, form, protection))


def receive_from_afar(port: int) -> None:
    say(f"4. {USER} receives from another machine, with NTLM and encryption.")
    with tiercel.connect(WAREHOUSE, user=USER, password=PASSWORD, port=port) as remote:
        message = remote.queue(r"private$\orders").receive(timeout=30)
        print(f"  received: {message.label}, {message.body.decode()}")
    try:
        with tiercel.connect(WAREHOUSE, user=USER, password=PASSWORD[::-1], port=port) as remote:
            remote.queue(r"private$\orders").peek(timeout=0)
    except tiercel.AccessDeniedError as refusal:
        print(f"  with a wrong password: {refusal.name}")


def decode() -> None:
    say("5. A packet from a Windows queue manager, field by field.")
    with chdir(ROOT):
        lines = command("decode", "--verify", PACKET).splitlines()
    show("\n".join([lines[2], *lines[4:7], "      ...", lines[-1]]))


def send_many(path: Path) -> None:
    """Lines in the format of `tiercel export`; the last message is broken."""
    draw = random.Random(6)  # noqa: S311  # a demonstration
    with path.open("w", encoding="utf-8") as lines:
        for number in range(3, MANY + 3):
            order = {"item": draw.choice(["tea", "bread", "ink"]), "amount": f"{draw.uniform(1, 40):.2f}"}
            print(json.dumps({"label": f"order {number}", "json": order}), file=lines)
        print(json.dumps({"label": "spoilt", "text": '{"item": "tea", "amo'}), file=lines)
    show(command("import", FAR, str(path), "--transactional", "--data", "shop"))


def land(spark: SparkSession, port: int) -> None:
    pipeline = parse(PIPELINE.replace("{port}", str(port)), Path.cwd())
    for words in ("the pipeline runs", "and once more"):
        done = run(pipeline, spark, lambda _query, _summary: None)
        print(f"  {words}: {done.messages} messages loaded, {done.quarantined} quarantined", flush=True)
    messages, orders = (open_table(each.options).read(spark) for each in pipeline.tables)
    totals = orders.groupBy("item").agg({"*": "count", "amount": "sum"})
    named = totals.withColumnsRenamed({"count(1)": "orders", "sum(amount)": "amount"}).orderBy("item")
    with redirect_stdout(StringIO()) as printed:
        named.show()
    show(printed.getvalue().strip())
    made = make("traffic", messages, START / "build" / "demo")
    print(f"  {made.headline}; chart: {made.png.relative_to(START)}")


def free_ports() -> list[int]:
    """Port 1801 if it is free on both machines; any free ports for the others."""
    found: list[int] = []
    for wanted in (1801, 0, 0, 0, 0):
        with socket.socket() as here, socket.socket() as there:
            try:
                here.bind((SHOP, wanted))
                there.bind((WAREHOUSE, here.getsockname()[1]))
            except OSError:
                here.close()
                with socket.socket() as any_port:
                    any_port.bind((SHOP, 0))
                    found.append(any_port.getsockname()[1])
            else:
                found.append(here.getsockname()[1])
    return found


def started(spark: "Future[SparkSession]") -> SparkSession:
    """Waits for Spark, and shows on a terminal that something goes on."""
    began, is_terminal = time.monotonic(), sys.stdout.isatty()
    while not spark.done():
        if is_terminal:
            print(f"\r  Spark is starting: {time.monotonic() - began:.0f} s", end="", flush=True)
        with suppress(TimeoutError):
            spark.exception(timeout=1)
    if is_terminal:
        print("\r\033[K", end="", flush=True)
    return spark.result()


def visit(address: str, seconds: float) -> None:
    """The console of the warehouse; it stays until Ctrl-C if that was asked for."""
    is_left = bool(os.environ.get("SHOW"))
    if is_left:
        print(f"its console: {address} (Ctrl-C ends it)")
    else:
        print(f"its console was {address} (make demo SHOW=1 leaves it running)")
    print(f"\n{seconds:.0f} seconds. The README shows each of these steps by hand.", flush=True)
    if is_left:
        with suppress(KeyboardInterrupt):
            signal.pause()


def tell(spark: "Future[SparkSession]") -> None:
    began = time.monotonic()
    ports = free_ports()
    shop, warehouse = Machine("shop", SHOP, ports), Machine("warehouse", WAREHOUSE, ports)
    survive()
    certify()
    warehouse.add_reader()
    warehouse.start()
    shop.start()
    try:
        exchange(warehouse)
        post(ports[3])
        receive_from_afar(ports[2])
        decode()
        say("6. Spark loads the remaining orders, and those that the shop sends now, each message once.")
        send_many(Path("orders.jsonl"))
        while warehouse.count() < MANY + 2:
            time.sleep(0.05)
        land(started(spark), ports[1])
        print(f"  left in the queue of the warehouse: {warehouse.count()}", end="; ")
        visit(f"http://{WAREHOUSE}:{ports[4]}/console/", time.monotonic() - began)
    finally:
        shop.end()
        warehouse.end()


def main() -> None:
    with ThreadPoolExecutor() as pool, tempfile.TemporaryDirectory() as folder:
        spark = pool.submit(open_session, "demo", "local[2]", OPTIONS)  # slow to start, so start it now
        try:
            with chdir(folder):
                tell(spark)
        finally:
            spark.result().stop()


if __name__ == "__main__":
    main()
