"""The daemon as a process: signals, systemd, and errors at startup."""

import asyncio
import errno
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Final

from tiercel.message_security.exchange_keys import ExchangeKeyError
from tiercel.message_security.trust import TrustError
from tiercel.model.errors import MqError
from tiercel.server import log, process_tuning, systemd
from tiercel.server.config import Config, ConfigError, Endpoint
from tiercel.server.daemon import Daemon, Face, changed_options

FINE: Final = 0
WRONG_CONFIGURATION: Final = 2
NO_ADDRESS: Final = 69  # EX_UNAVAILABLE: cannot listen
FAILED: Final = 70  # EX_SOFTWARE: a commit failed, or a bug
NO_STORE: Final = 73  # EX_CANTCREAT: store in use, damaged, too new, or not writable

_SPARE_FILES: Final = 64  # descriptors in addition to connections

Reread = Callable[[], Config]


def run(config: Config, reread: Reread, faces: Iterable[Face] = ()) -> int:
    """Serve until a signal or a failure; returns the exit code. SIGHUP calls `reread`."""
    options = config.log
    try:
        handler = log.configure(level=options.level, format_name=options.format, file=options.file)
    except OSError as problem:
        return _fail(f"[log] file = {options.file!r}: {problem.strerror}", WRONG_CONFIGURATION)
    _allow_files(config)
    try:
        return asyncio.run(_Service(config, reread, faces).run())
    finally:
        log.end(handler)


def print_error(problem: str) -> None:
    """Print one line to stderr."""
    print(f"tiercel serve: {problem}", file=sys.stderr, flush=True)  # noqa: T201  # the log may not exist yet


def _fail(problem: str, code: int) -> int:
    print_error(problem)
    return code


class _Service:
    def __init__(self, config: Config, reread: Reread, faces: Iterable[Face]) -> None:
        self._config = config
        self._faces = faces
        self._reread = reread
        self._stopping = asyncio.Event()
        self._signals = 0

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        log.limit_accept_errors(loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)  # ignored until there is something to reload
        try:
            self._daemon = Daemon(self._config, faces=self._faces)
        except (ConfigError, ExchangeKeyError, TrustError) as problem:
            return _fail(str(problem), WRONG_CONFIGURATION)
        except MqError as problem:
            return _fail(str(problem), NO_STORE)
        inherited = systemd.inherited_sockets()
        try:
            await self._daemon.start(inherited)
        except OSError as problem:
            return _fail(explain(self._config, problem), NO_ADDRESS)
        except MqError as problem:
            return _fail(str(problem), NO_STORE)
        process_tuning.leave_out_pandas()
        process_tuning.collect_garbage_rarely()
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        systemd.notify("READY=1", f"MAINPID={os.getpid()}", f"STATUS=listens on {self._listens_on()}")
        beat = loop.create_task(_beat())
        try:
            await self._until_the_end()
        finally:
            beat.cancel()
            systemd.notify("STOPPING=1")
            await self._daemon.stop()
        if self._daemon.failure is not None:
            return _fail(f"stopped after a failure: {self._daemon.failure}", FAILED)
        return FINE

    def _listens_on(self) -> str:
        return ", ".join(map(str, self._daemon.endpoints))

    async def _until_the_end(self) -> None:
        ends = [asyncio.ensure_future(event.wait()) for event in (self._stopping, self._daemon.failed)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for each in ends:
            each.cancel()

    def _stop(self, number: signal.Signals) -> None:
        self._signals += 1
        log.info("stopping", signal=number.name)
        self._stopping.set()
        if self._signals > 1:  # a second signal: stop at once, committed data is safe
            self._daemon.abort()

    def _reload(self) -> None:
        systemd.notify("RELOADING=1")
        try:
            new = self._reread()
        except ConfigError as problem:
            log.error("reload_failed", reason=problem, kept="the configuration as it was")
        else:
            changed = changed_options(self._daemon.config, new)
            waiting = self._daemon.reload(new)
            log.set_level(new.log.level)
            taken = [name for name in changed if name not in waiting]
            log.info("reload", changed=",".join(taken) or "nothing", needs_restart=",".join(waiting))
        systemd.notify("READY=1")


async def _beat() -> None:
    """Tell systemd that the event loop is alive."""
    seconds = systemd.watchdog_seconds()
    while seconds is not None:
        systemd.notify("WATCHDOG=1")
        await asyncio.sleep(seconds / 2)


def _allow_files(config: Config) -> None:
    """Raise the limit of open files to the maximum; warn if that is below the limit of connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    connections = config.limits.connections + (config.srmp.connections if config.srmp.enabled else 0)
    if hard < connections + _SPARE_FILES:
        log.warning("few_open_files", limit=hard, connections=connections)


def explain(config: Config, problem: OSError) -> str:
    """The cause of a listen error, and the fix."""
    where, port, choose = f"{config.listen.host}:{config.listen.port}", config.listen.port, "with --listen"
    if problem.filename is not None:  # the address of a face
        where, choose = str(problem.filename), "in the configuration"
        port = Endpoint.parse(where).port
    fixes = {
        errno.EADDRINUSE: (
            f"the port is in use. Stop the program that uses it (ss -ltnp 'sport = :{port}' shows it), "
            f"or choose another {choose}"
        ),
        errno.EADDRNOTAVAIL: "this computer has no such address. Choose one that `ip address` shows",
        errno.EACCES: "the system does not allow it. Choose a port above 1023, or grant CAP_NET_BIND_SERVICE",
    }
    if isinstance(problem, socket.gaierror):
        why = "the name has no address. Choose an address, or correct the name"
    else:
        # From Python 3.12 on, asyncio gives no number when the computer has none of the addresses.
        number = errno.EADDRNOTAVAIL if problem.errno is None else problem.errno
        why = fixes.get(number) or f"{problem.strerror or problem}"
    has_pings = config.binary.ping and problem.filename is None
    ping = f" (or UDP port {config.binary.ping_port} for pings)" if has_pings else ""
    return f"cannot listen on {where}{ping}: {why}."
