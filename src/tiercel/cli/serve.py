"""`tiercel serve`: the queue manager as a daemon."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tiercel.server.config import DEFAULT_HOST, DEFAULT_PORT, Config, ConfigError, load

verbs = typer.Typer()


@verbs.command(
    "serve",
    epilog=f"""\
Other queue managers reach it at HOST:PORT, which is {DEFAULT_HOST}:{DEFAULT_PORT} unless told otherwise:
nobody else can then, so name an address of this computer, or 0.0.0.0 for all of them.

SIGTERM and SIGINT end it cleanly; SIGHUP has it read the configuration again. docs/operating.md explains
every option of the configuration.

    tiercel serve --data data
    tiercel serve --data /var/lib/tiercel --config /etc/tiercel.toml --listen 0.0.0.0:1801

exit codes: 0 it was stopped, 2 wrong usage or configuration, 69 it cannot listen there, 70 it failed while it
ran (what was acknowledged is safe; start it again), 73 the store cannot be opened
""",
)
def serve(
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where the queue manager keeps its data.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A configuration in TOML.")] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to listen, before what FILE says.")
    ] = None,
) -> int:
    """Run the queue manager whose data is in DIR, and make it on first use."""
    # A whole queue manager, which whoever asks for help does not need.
    from tiercel.faces import faces  # noqa: PLC0415
    from tiercel.server import service  # noqa: PLC0415

    def read() -> Config:
        return _read(config, data, listen)

    try:
        first = read()
        shown = faces(first)
    except ConfigError as problem:
        service.say(str(problem))
        return service.WRONG_CONFIGURATION
    return service.run(first, read, shown)


def _read(path: Path | None, data: str | None, listen: str | None) -> Config:
    """The configuration of a file, with the words of the command line before it; raises `ConfigError`."""
    config = Config() if path is None else load(path)
    if data is not None:
        config = replace(config, node=replace(config.node, data=data))
    if not config.node.data:
        raise ConfigError('where is the data? Say --data DIR, or data = "DIR" in [node]')
    return config if listen is None else config.with_listen(listen)
