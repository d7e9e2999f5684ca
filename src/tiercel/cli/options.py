"""Options shared by many commands."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done without doing it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
