"""Tokens in the URLs that stream receipts come to.

Anybody who reaches our listener can post a receipt, and one that was believed wrongly would delete messages
that nobody has. So the URL that a receiver gets has a token in its query, which the specification leaves to
us and has copied into every receipt (SRMP-067). The token is made of the stream and a secret of this queue
manager: it needs no table, and holds for final receipts that come long after the stream has ended.
"""

from hashlib import blake2b
from hmac import compare_digest
from urllib.parse import parse_qs

from tiercel.engine.engine import Engine

_KEY = b"srmp_receipt_secret"  # in Keyspace.META
_PARAMETER = "senderstream"  # the name in the examples; request lines are in lower case (SRMP-003)


class ReceiptTokens:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def _secret(self) -> bytes:
        secret = self._engine.notes.get(_KEY)
        if secret is None:
            secret = self._engine.new_guid().bytes + self._engine.new_guid().bytes
            self._engine.notes.put(_KEY, secret)
        return secret

    def of(self, sequence: int) -> str:
        """32 lower-case hexadecimal digits."""
        return blake2b(sequence.to_bytes(8, "big"), key=self._secret, digest_size=16).hexdigest()

    def added_to(self, url: str, sequence: int) -> str:
        return f"{url}{'&' if '?' in url else '?'}{_PARAMETER}={self.of(sequence)}"

    def fits(self, url: str, sequence: int) -> bool:
        """Whether a receipt that came to this URL has the token of the stream."""
        query = parse_qs(url.partition("?")[2].casefold())
        found = query.get(_PARAMETER, [""])[-1]
        return compare_digest(found.encode(), self.of(sequence).encode())
