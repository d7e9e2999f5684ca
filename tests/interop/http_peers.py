"""curl and nginx, and daemons that take messages over HTTP beside them."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import create_connection

from api.asked import Asked, asked
from certificates import Issued
from tiercel.srmp.http_request import HttpRequest

from .installed import installed

HOST = "127.0.0.1"
PATIENCE_S = 60.0
ROOT = Path(__file__).resolve().parents[2]
# Where prepare.sh unpacks it: installed, it would start a server of its own.
UNPACKED_NGINX = ROOT / "build" / "nginx" / "usr" / "sbin" / "nginx"


def curl(*words: str, data: bytes = b"", file: Path | None = None) -> tuple[int, str]:
    """The status of the last answer, and all that it printed."""
    program = installed("curl")
    if file is not None:
        file.write_bytes(data)
        words = (*words, "--data-binary", f"@{file}")
    done = subprocess.run(  # noqa: S603
        (program, "--silent", "--show-error", "--write-out", "\n%{http_code}", *words),
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    text, _, status = done.stdout.decode().rpartition("\n")
    return int(status), text


def curl_post(base: str, request: HttpRequest, file: Path, *options: str) -> tuple[int, str]:
    """Post a request as curl does: with its own headers, and those that the message needs."""
    headers = [
        word
        for name, value in request.head.headers
        if name.casefold() not in {"host", "content-length"}
        for word in ("--header", f"{name}: {value}")
    ]
    return curl(*headers, *options, base + request.head.target, data=request.body, file=file)


@contextmanager
def queue_manager(folder: Path, srmp: str, queues: dict[str, bool]) -> Iterator[Asked]:
    """A daemon that listens for HTTP, with these queues; `queues` tells which are transactional."""
    folder.mkdir()
    with asked(folder, f'[srmp]\nenabled = true\nhost = "{HOST}"\nretry_ms = 200\n{srmp}\n') as served:
        for name, transactional in queues.items():
            served.create(name, transactional=transactional)
        yield served


@contextmanager
def nginx(folder: Path, servers: str) -> Iterator[None]:
    """Run nginx with these `server` blocks."""
    program = installed("nginx", UNPACKED_NGINX)
    folder.mkdir()
    config = folder / "nginx.conf"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"    {kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    config.write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{\n    access_log {folder}/access.log;\n{paths}{servers}}}\n",
        "utf-8",
    )
    with subprocess.Popen((program, "-p", str(folder), "-c", str(config))) as process:  # noqa: S603
        try:
            yield
        finally:
            process.terminate()


def location(port: int) -> str:
    """Pass on everything to a daemon, over connections that are kept."""
    return (
        f"        location / {{\n            proxy_pass http://{HOST}:{port};\n"
        '            proxy_http_version 1.1;\n            proxy_set_header Connection "";\n'
        "            proxy_set_header Host $http_host;\n        }\n"
    )


def tls_server(listen: int, port: int, issued: Issued) -> str:
    return (
        f"    server {{\n        listen {HOST}:{listen} ssl;\n        ssl_certificate {issued.certificate};\n"
        f"        ssl_certificate_key {issued.key};\n{location(port)}    }}\n"
    )


def plain_server(listen: int, port: int) -> str:
    return f"    server {{\n        listen {HOST}:{listen};\n{location(port)}    }}\n"


def wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(OSError):
            create_connection((HOST, port)).close()
            return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens at {port}")
