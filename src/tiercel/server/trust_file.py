"""The file of the trust store: re-read after a change, replaced atomically, refused if others can use it."""

from collections.abc import Callable
from pathlib import Path

from tiercel.message_security.body_encryption import ExchangeKeys
from tiercel.message_security.encryption import Encryption
from tiercel.message_security.trust import Trust, TrustError
from tiercel.message_security.verifier import Verifier
from tiercel.server import log
from tiercel.server.config import SecurityOptions
from tiercel.server.private_file import Keeps, TableFile, Watched

_MEANWHILE = "the last content counts; without one, nobody is known and unknown certificates are refused"
_FILE = TableFile(Trust(), TrustError)
read, change = _FILE.read, _FILE.change


def current(options: SecurityOptions) -> Callable[[], Trust]:
    """The current content of the file.

    While it cannot be read, the last one counts: a slip in editing neither lets unknown senders in nor locks
    known ones out. While there is no file, nobody is known, and unknown certificates are refused.
    """
    if not options.trust:
        return Trust
    watched = Watched(Path(options.trust), read, Trust(is_missing=True), _report, keeps=Keeps.IF_IT_EXISTS)
    return lambda: watched.value


def check(options: SecurityOptions) -> None:
    """Before a daemon starts: TrustError if there is a file that cannot be used. It may be made later."""
    path = Path(options.trust)
    if options.trust and path.exists():
        try:
            read(path)
        except TrustError as problem:
            raise TrustError(f"cannot use [security] trust: {problem}") from problem


def verifier(options: SecurityOptions, trust: Callable[[], Trust] | None = None) -> Verifier:
    return Verifier(trust or current(options), options.verification)


def encryption(options: SecurityOptions, trust: Callable[[], Trust], keys: ExchangeKeys) -> Encryption:
    direct = options.encrypt_direct_names
    return Encryption(options.encryption, keys, trust, encrypt_direct_names=direct)


def _report(problem: str) -> None:
    log.error("trust_unusable", reason=problem, effect=_MEANWHILE)
