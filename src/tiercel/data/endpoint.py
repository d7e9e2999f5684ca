"""The data endpoint in the daemon: it starts data processes and restarts those that die.

The daemon opens the public address and passes it on, so that clients wait while a data process restarts. A
data process ends when its stdin is closed, so it ends with the daemon, however that ends.
"""

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tiercel.api.listening import listen, tls_context, warn_without_tls
from tiercel.server import log
from tiercel.server.config import Config, DataOptions, Endpoint
from tiercel.server.daemon import Daemon
from tiercel.server.shared_counts import SharedCounts

_FIRST_PAUSE_S: Final = 0.1  # before restarting a data process
_LONGEST_PAUSE_S: Final = 10.0
_STOP_S: Final = 2.0
RELOAD: Final = b"reload\n"  # to a data process, on its stdin


class DataEndpoint:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._options: DataOptions = config.data
        self._watchers: list[asyncio.Task[None]] = []
        self._endpoint = Endpoint(config.data.host, config.data.port)
        self._tls = tls_context("data", config.data)  # the data processes read it themselves
        self._processes: set[asyncio.subprocess.Process] = set()

    @property
    def addresses(self) -> dict[str, str]:
        return {"data_endpoint": f"{self._options.scheme}://{self._endpoint}"}

    async def start(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._listener = await listen(self._options.host, self._options.port)
        self._endpoint = Endpoint(self._options.host, self._listener.getsockname()[1])
        self._turned_away = SharedCounts.new(self._options.processes)
        daemon.turned_away["data"] = lambda: self._turned_away.total
        warn_without_tls("data_without_tls", self._options, self._endpoint)
        directory, loop = daemon.driver.directory, asyncio.get_running_loop()
        self._watchers = [
            loop.create_task(self._watch(directory, number)) for number in range(self._options.processes)
        ]

    def reload(self) -> None:
        """Have the data processes read the certificate again, if it can be used."""
        if self._tls is not None and self._tls.renew():
            for process in self._processes:
                assert process.stdin is not None
                process.stdin.write(RELOAD)

    async def stop(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        self._listener.close()
        self._turned_away.close()

    async def _watch(self, directory: Path, number: int) -> None:
        """Keeps one data process running, with a growing pause between restarts."""
        loop, pause_s = asyncio.get_running_loop(), _FIRST_PAUSE_S
        while True:
            started = loop.time()
            code = await self._run(directory, number)
            self._daemon.driver.forget_dead_readers()
            if loop.time() - started > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            log.warning("data_process_ended", code=code, again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _run(self, directory: Path, number: int) -> int:
        descriptor, counts = self._listener.fileno(), self._turned_away.descriptor
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # never import from the working directory
            "-m",
            "tiercel.data.process",
            stdin=asyncio.subprocess.PIPE,
            pass_fds=[descriptor, counts],
        )
        assert process.stdin is not None
        log.info("data_process_started", pid=process.pid, address=self._endpoint)
        settings = {
            "directory": str(directory),
            "descriptor": descriptor,
            "counts": counts,
            "number": number,
            "options": asdict(self._options),
            "log": asdict(self._daemon.config.log),
        }
        try:
            with suppress(ConnectionError):  # it has died already; the watcher restarts it
                process.stdin.write(json.dumps(settings).encode() + b"\n")
                await process.stdin.drain()
            self._processes.add(process)
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
        finally:
            self._processes.discard(process)
