"""Options that mean the same for every verb."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Say what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
