"""The data process: `python -m tiercel.data.process`, started by the daemon.

Its stdin delivers one line of JSON, the settings. Each further line asks it to read its certificate again. It
is closed when the daemon ends.
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
from tiercel.api.listening import connection_limits, tls_context
from tiercel.api.unix_socket import UnixSocket
from tiercel.data.app import DataApp
from tiercel.data.daemon_client import DaemonClient
from tiercel.server import log, process_tuning
from tiercel.server.config import DataOptions
from tiercel.server.shared_counts import SharedCounts
from tiercel.server.tls import RenewableContext
from tiercel.store import open_reader

_NICE: Final = 1  # the queue manager has priority on a busy computer


def main() -> None:
    process_tuning.leave_out_pandas()
    settings: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    options = settings["log"]
    log.configure(level=options["level"], format_name=options["format"], file=options["file"])
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
    with suppress(OSError):  # may be forbidden
        os.nice(_NICE)
    process_tuning.collect_garbage_rarely()
    tls = tls_context("data", DataOptions(**settings["options"]))
    threading.Thread(target=_follow_the_daemon, args=(tls,), daemon=True).start()
    asyncio.run(_serve(settings, tls))


def _follow_the_daemon(tls: RenewableContext | None) -> None:
    """At the end of the daemon, exit immediately: a restarted one needs the port."""
    for _line in sys.stdin.buffer:
        if tls is not None:
            tls.renew()
    os._exit(0)


async def _serve(settings: dict[str, Any], tls: RenewableContext | None) -> None:
    log.limit_accept_errors(asyncio.get_running_loop())
    options = DataOptions(**settings["options"])
    directory = Path(settings["directory"])
    listener = socket.socket(fileno=settings["descriptor"])
    counts = SharedCounts(settings["counts"], options.processes)
    with open_reader(directory) as reader:
        app = DataApp(
            reader,
            DaemonClient(UnixSocket(directory)),
            TokenAuthorization(options.tokens, "data endpoint", "data"),
        )
        server = new_server(
            app.app,
            tls=tls,
            limits=connection_limits("data", options, counts.one(settings["number"])),
            trusted_proxies=options.trusted_proxies,
        )
        await server.serve([listener])


if __name__ == "__main__":
    main()
