"""The file of the trust store: re-read after a change, replaced atomically, refused if others can use it."""

from pathlib import Path

from tiercel.message_security.trust import Trust, TrustError
from tiercel.message_security.verifier import Verifier
from tiercel.server import log
from tiercel.server.config import SecurityOptions
from tiercel.server.private_file import TableFile, Watched

_FILE = TableFile(Trust(), TrustError)
read, change = _FILE.read, _FILE.change


def verifier(options: SecurityOptions) -> Verifier:
    """Verifies with the current content of the file; nobody is known while it cannot be read."""
    if not options.trust:
        return Verifier(policy=options.verification)
    watched = Watched(Path(options.trust), read, Trust(), _report)
    return Verifier(lambda: watched.value, options.verification)


def _report(problem: str) -> None:
    log.error("trust_unusable", reason=problem)
