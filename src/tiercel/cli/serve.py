"""`tiercel serve`: the queue manager as a daemon."""

import argparse
from dataclasses import replace
from pathlib import Path

from tiercel import http
from tiercel.server import service
from tiercel.server.config import DEFAULT_HOST, DEFAULT_PORT, Config, ConfigError, load

NAME = "serve"
HELP = "run a queue manager that talks to others"
DESCRIPTION = f"""\
Runs the queue manager whose data is in DIR, and makes it on first use. Other queue managers reach it at
HOST:PORT, which is {DEFAULT_HOST}:{DEFAULT_PORT} unless told otherwise: nobody else can then, so name an
address of this computer, or 0.0.0.0 for all of them.

SIGTERM and SIGINT end it cleanly; SIGHUP has it read the configuration again. docs/operating.md explains
every option of the configuration.
"""
EPILOG = """\
exit codes: 0 it was stopped, 2 wrong usage or configuration, 69 it cannot listen there, 70 it failed while it
ran (what was acknowledged is safe; start it again), 73 the store cannot be opened
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", help="where the queue manager keeps its data")
    parser.add_argument("--config", metavar="FILE", type=Path, help="a configuration in TOML")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to listen, before what FILE says")


def run(arguments: argparse.Namespace) -> int:
    def read() -> Config:
        return _read(arguments.config, arguments.data, arguments.listen)

    try:
        config = read()
        faces = http.faces(config)
    except ConfigError as problem:
        service.say(str(problem))
        return service.WRONG_CONFIGURATION
    return service.run(config, read, faces)


def _read(path: Path | None, data: str | None, listen: str | None) -> Config:
    """The configuration of a file, with the words of the command line before it; raises `ConfigError`."""
    config = Config() if path is None else load(path)
    if data is not None:
        config = replace(config, node=replace(config.node, data=data))
    if not config.node.data:
        raise ConfigError('where is the data? Say --data DIR, or data = "DIR" in [node]')
    return config if listen is None else config.with_listen(listen)
