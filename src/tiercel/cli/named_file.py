"""Token and accounts files, given directly or through a configuration file."""

from collections.abc import Callable
from pathlib import Path

import typer

from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.server.config import Config, ConfigError, load


def named_file(file: Path | None, config: Path | None, find: Callable[[Config], str]) -> Path:
    """`find` returns the file name in a configuration, or raises `ConfigError`."""
    if (file is None) == (config is None):
        raise typer.BadParameter("use exactly one of these", param_hint=["--file", "--config"])
    if file is not None:
        return file
    assert config is not None
    try:
        found = load(config)
    except ConfigError as problem:
        raise Failure(str(problem), ExitCode.WRONG_USAGE) from problem
    try:
        return Path(find(found))
    except ConfigError as problem:
        raise Failure(f"{config}: {problem}", ExitCode.WRONG_USAGE) from problem
