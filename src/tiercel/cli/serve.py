"""`tiercel serve`: runs the queue manager as a daemon."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tiercel.server.config import DEFAULT_HOST, DEFAULT_PORT, Config, ConfigError, load

if TYPE_CHECKING:
    from tiercel.server.daemon import Daemon, Face

verbs = typer.Typer()


@verbs.command(
    "serve",
    epilog=f"""\
It listens on HOST:PORT (default: {DEFAULT_HOST}:{DEFAULT_PORT}, where only local programs can reach it). To
accept connections from other computers, give an address of this computer, or 0.0.0.0 for all of them.

SIGTERM and SIGINT stop it cleanly; SIGHUP reloads the configuration. docs/operating.md explains every option.

    tiercel serve --data data
    tiercel serve --data data --console
    tiercel serve --data /var/lib/tiercel --config /etc/tiercel.toml --listen 0.0.0.0:1801

exit codes: 0 stopped, 2 invalid usage or configuration, 69 cannot listen, 70 failed while running
(acknowledged messages are safe; start it again), 73 the store cannot be opened
""",
)
def serve(
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Data directory (default: data in \\[node]).")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file (TOML).")] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Listening address; overrides FILE.")
    ] = None,
    console: Annotated[
        bool, typer.Option("--console", help="Serve the API and the console, and print its address.")
    ] = False,
) -> int:
    """Run the queue manager in DIR, and create it on first use."""
    # A whole queue manager, not needed for --help.
    from tiercel.faces import faces  # noqa: PLC0415
    from tiercel.server import service  # noqa: PLC0415

    def read() -> Config:
        return _read(config, data, listen, console=console)

    try:
        first = read()
        shown = faces(first)
        if console:
            shown.append(_ConsoleAddress(shown[0], first.api.tokens))
    except ConfigError as problem:
        service.print_error(str(problem))
        return service.WRONG_CONFIGURATION
    return service.run(first, read, shown)


class _ConsoleAddress:
    """Prints where the console is, once the API listens."""

    addresses: Final[dict[str, str]] = {}

    def __init__(self, api: "Face", tokens: str) -> None:
        self._api = api
        self._tokens = tokens

    async def start(self, _daemon: "Daemon") -> None:
        login = f" (log in with a token of {self._tokens})" if self._tokens else ""
        print(f"console: {self._api.addresses['api']}/console/{login}", flush=True)

    def reload(self) -> None:
        pass

    async def stop(self) -> None:
        pass


def _read(path: Path | None, data: str | None, listen: str | None, *, console: bool) -> Config:
    """The configuration file with the command line options applied; raises `ConfigError`."""
    config = Config() if path is None else load(path)
    if data is not None:
        config = replace(config, node=replace(config.node, data=data))
    if console:
        config = replace(config, api=replace(config.api, enabled=True))
    if not config.node.data:
        raise ConfigError('no data directory: use --data DIR, or data = "DIR" in [node]')
    return config if listen is None else config.with_listen(listen)
