"""The file of the trust store: re-read after a change, replaced atomically, refused if others can use it."""

from collections.abc import Callable
from pathlib import Path

from tiercel.message_security.trust import Trust, TrustError
from tiercel.message_security.verifier import Verifier
from tiercel.server import log, private_file
from tiercel.server.config import SecurityOptions
from tiercel.server.private_file import Watched

Edit = Callable[[Trust], Trust]


def verifier(options: SecurityOptions) -> Verifier:
    """Verifies with the current content of the file; nobody is known while it cannot be read."""
    if not options.trust:
        return Verifier(policy=options.verification)
    watched = Watched(Path(options.trust), read, Trust(), _report)
    return Verifier(lambda: watched.value, options.verification)


def _report(problem: str) -> None:
    log.error("trust_unusable", reason=problem)


def read(path: Path) -> Trust:
    """The trust store in a private file; raises `TrustError`."""
    text = private_file.read(path, TrustError)
    try:
        return Trust.parse(text)
    except TrustError as problem:
        raise TrustError(f"{path}: {problem}") from problem


def change(path: Path, edit: Edit, *, create: bool = False) -> Trust:
    """Read, edit and write in one step; with `create`, a missing file counts as empty."""
    with private_file.changing(path, TrustError) as write:
        after = edit(Trust() if create and not path.exists() else read(path))
        write(after.text())
    return after
