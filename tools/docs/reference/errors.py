"""Every error with its code, what it means and what to do."""

from collections.abc import Iterator

from tiercel.api.problems import status_of
from tiercel.model import errors
from tiercel.model.errors import MqError

from .tables import code, table

HEAD = """# Errors

Every error of Tiercel is a `tiercel.TiercelError`; those below are `tiercel.MqError` and carry the code
that MSMQ gives to the same problem, so that programs which know the codes of Windows know these. Over HTTP
an error is `application/problem+json` with `code`, `number`, `detail` and `fix`; the command line prints it
as one line.

"""


def page() -> str:
    rows = [
        (
            code(kind.__name__),
            f"{kind.name}<br>`0x{kind.code:08X}`",
            int(status_of(kind(""))),
            kind.meaning,
            kind.fix,
        )
        for kind in sorted(set(_kinds(MqError)), key=lambda kind: (kind.code, kind.__name__))
        if kind.__module__ == errors.__name__
    ]
    return HEAD + table(("error", "code", "HTTP", "meaning", "what to do"), rows)


def _kinds(root: type[MqError]) -> Iterator[type[MqError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from _kinds(kind)
