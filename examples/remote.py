r"""A remote consumer: logs in with NTLM, receives encrypted messages, acknowledges finished ones.

A daemon is started with a queue of three orders that only `EXAMPLE\\reader` may receive. The consumer fails
while processing the second order, which returns to the queue and is delivered again.
"""

import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import tiercel
from tiercel.security.descriptor import SecurityDescriptor

USER, PASSWORD, SID = r"EXAMPLE\reader", "a long secret", "S-1-5-21-1-2-3-1001"
TIERCEL = (sys.executable, "-m", "tiercel")


def prepare(directory: Path, port: int) -> Path:
    """Create a queue with three orders, an account that may receive them, and a configuration."""
    config = directory / "tiercel.toml"
    config.write_text(
        f'[node]\ndata = "{directory / "data"}"\n[listen]\nport = 0\n'
        f'[accounts]\nfile = "{directory / "accounts"}"\n'
        f'[remote_read]\nenabled = true\nport = {port}\nleast_level_local = "privacy"\n'
        '[log]\nlevel = "error"\n'
    )
    add = [*TIERCEL, "user", "add", "--config", str(config), "--sid", SID, USER]
    subprocess.run(add, input=f"{PASSWORD}\n", text=True, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # ours
    security = SecurityDescriptor.parse(f"O:{SID}D:(A;;GA;;;{SID})").encode()
    with tiercel.open(directory / "data") as qm:
        orders = qm.create_queue(r".\private$\orders", security=security)
        for number in (1, 2, 3):
            orders.send(tiercel.Message(b"...", label=f"order {number}", delivery=1))
    return config


def consume(port: int) -> None:
    with tiercel.connect("127.0.0.1", user=USER, password=PASSWORD, port=port) as remote:
        orders = remote.queue(r"private$\orders")
        attempts: list[str] = []
        while True:
            try:
                with orders.receiving(timeout=0) as message:
                    print(f"  {message.label} is received")
                    work(message, attempts)
            except ConnectionError as problem:
                print(f"  {problem}: the order returns to the queue")
            except tiercel.IoTimeoutError:
                return


def work(message: tiercel.Message, attempts: list[str]) -> None:
    attempts.append(message.label)
    if message.label == "order 2" and attempts.count(message.label) == 1:
        raise ConnectionError("the database is unavailable")


def refused(port: int) -> str:
    try:
        with tiercel.connect("127.0.0.1", user=USER, password=PASSWORD[::-1], port=port) as remote:
            remote.queue(r"private$\orders").peek(timeout=0)
    except tiercel.TiercelError as problem:
        return type(problem).__name__
    raise AssertionError("a wrong password was accepted")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        port = free_port()
        config = prepare(Path(name), port)
        daemon = subprocess.Popen([*TIERCEL, "serve", "--config", str(config)])  # noqa: S603  # ours
        try:
            wait_for(port)
            print(rf"{USER} receives from another machine, with NTLM and encryption:")
            consume(port)
            print(f"with a wrong password: {refused(port)}")
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
        with tiercel.open(Path(name) / "data") as qm:
            orders = qm.queue(r".\private$\orders")
            print(f"left in the queue: {orders.count}")


def wait_for(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            continue
        return


if __name__ == "__main__":
    main()
