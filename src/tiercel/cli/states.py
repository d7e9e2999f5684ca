"""What goes on: `outgoing`, `connections`, `transactions`, `claims`."""

from typing import Annotated, Any, Final

import typer
from rich.text import Text

from tiercel.cli.output import Column, Record, number, plural, seconds, size, when
from tiercel.cli.session import Session, Yes, connected

verbs = typer.Typer()
