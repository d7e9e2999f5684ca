"""The data process: `python -m tiercel.data.process`, started by the daemon.

Its stdin delivers one line of JSON, the settings, and is closed when the daemon ends.
"""

import asyncio
import json
import logging
import os
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tiercel.api.authorization import TokenAuthorization
from tiercel.api.http_server import new_server
from tiercel.api.listening import connection_limits
from tiercel.api.unix_socket import UnixSocket
from tiercel.data.app import DataApp
from tiercel.data.daemon_client import DaemonClient
from tiercel.server import log, process_tuning
from tiercel.server.config import DataOptions
from tiercel.store import open_reader

_NICE: Final = 1  # the queue manager has priority on a busy computer


def main() -> None:
    process_tuning.leave_out_pandas()
    settings: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_daemon, daemon=True).start()
    options = settings["log"]
    log.configure(level=options["level"], format_name=options["format"], file=options["file"])
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
    with suppress(OSError):  # may be forbidden
        os.nice(_NICE)
    process_tuning.collect_garbage_rarely()
    asyncio.run(_serve(settings))


def _end_with_the_daemon() -> None:
    """Exits immediately: a restarted daemon needs the port."""
    sys.stdin.buffer.read()
    os._exit(0)


async def _serve(settings: dict[str, Any]) -> None:
    log.limit_accept_errors(asyncio.get_running_loop())
    options = DataOptions(**settings["options"])
    directory = Path(settings["directory"])
    listener = socket.socket(fileno=settings["descriptor"])
    with open_reader(directory) as reader:
        app = DataApp(
            reader,
            DaemonClient(UnixSocket(directory)),
            TokenAuthorization(options.tokens, "data endpoint", "data"),
        )
        server = new_server(
            app.app,
            ssl_certfile=options.tls_certificate or None,
            ssl_keyfile=options.tls_key or None,
            limits=connection_limits("data", options),
            trusted_proxies=options.trusted_proxies,
        )
        await server.serve([listener])


if __name__ == "__main__":
    main()
