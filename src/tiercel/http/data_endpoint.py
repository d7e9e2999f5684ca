"""The data endpoint as the daemon has it: the Unix socket on its own loop, and data processes to watch.

The daemon itself opens the public address and hands it on, so that a data process which is started again
finds its clients waiting. A data process lives as long as its standard input is open: it ends with the
daemon, however that ends.
"""

import asyncio
import errno
import json
import socket
import ssl
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tiercel.http.commands import Commands
from tiercel.http.daemon_app import DaemonApp
from tiercel.http.serving import Door, Serving
from tiercel.server import log
from tiercel.server.config import Config, ConfigError, DataOptions, Endpoint, is_loopback
from tiercel.server.daemon import Daemon

_FIRST_PAUSE_S: Final = 0.1  # before a data process that died is started again
_LONGEST_PAUSE_S: Final = 10.0
_STOP_S: Final = 2.0
_TRIES, _TRY_S = 20, 0.1  # the data process of a daemon that was killed may still have the port


class DataEndpoint:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._options: DataOptions = config.data
        self._watchers: list[asyncio.Task[None]] = []
        self._endpoint = Endpoint(config.data.host, config.data.port)
        _check_certificate(config.data)

    @property
    def addresses(self) -> dict[str, str]:
        return {"data_endpoint": f"{self._options.scheme}://{self._endpoint}"}

    async def start(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._commands = Commands(daemon)
        self._listener = await self._listen()
        self._endpoint = Endpoint(self._options.host, self._listener.getsockname()[1])
        directory = Path(daemon.config.node.data)
        try:
            self._door = Door(directory)
            self._serving = Serving(DaemonApp(self._commands).app, self._door.listen())
        except BaseException:
            self._listener.close()
            raise
        if not self._options.tls_certificate and not is_loopback(self._options.host):
            log.warning("data_without_tls", address=self._endpoint)
        loop = asyncio.get_running_loop()
        self._watchers = [loop.create_task(self._watch(directory)) for _ in range(self._options.processes)]

    async def stop(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        self._listener.close()
        self._commands.stop()
        await self._serving.stop()
        self._door.remove()
        self._door.close()

    async def _listen(self) -> socket.socket:
        options = self._options
        found = await asyncio.get_running_loop().getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, *_, address = found[0]
        for tries_left in reversed(range(_TRIES)):
            try:
                return socket.create_server(address, family=family, backlog=128)
            except OSError as problem:
                if problem.errno != errno.EADDRINUSE or not tries_left:
                    where = str(Endpoint(options.host, options.port))
                    raise OSError(problem.errno, problem.strerror, where) from problem
            await asyncio.sleep(_TRY_S)
        raise AssertionError("the last try either listens or raises")

    async def _watch(self, directory: Path) -> None:
        """Has one data process at any time, but not one that dies at once in a tight loop."""
        loop, pause_s = asyncio.get_running_loop(), _FIRST_PAUSE_S
        while True:
            started = loop.time()
            code = await self._run(directory)
            self._daemon.driver.forget_dead_readers()
            if loop.time() - started > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            log.warning("data_process_ended", code=code, again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _run(self, directory: Path) -> int:
        descriptor = self._listener.fileno()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # what lies in the working directory is no part of the program
            "-m",
            "tiercel.http.data_process",
            stdin=asyncio.subprocess.PIPE,
            pass_fds=[descriptor],
        )
        assert process.stdin is not None
        log.info("data_process_started", pid=process.pid, address=self._endpoint)
        settings = {
            "directory": str(directory),
            "descriptor": descriptor,
            "options": asdict(self._options),
            "log": asdict(self._daemon.config.log),
        }
        try:
            with suppress(ConnectionError):  # it has died already, and the watcher will hear of it
                process.stdin.write(json.dumps(settings).encode() + b"\n")
                await process.stdin.drain()
            return await process.wait()
        except asyncio.CancelledError:
            process.stdin.close()
            try:
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
            raise


def _check_certificate(options: DataOptions) -> None:
    if not options.tls_certificate:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.tls_certificate, options.tls_key)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        files = f"{options.tls_certificate}, {options.tls_key}"
        raise ConfigError(
            f"[data] tls_certificate, tls_key: {files}: they cannot be used ({reason})"
        ) from problem
