"""Searching messages by regular expression or filter, in another process with a budget.

Both the bodies and the pattern come from strangers, and either can be made to take forever.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Final

from tiercel.admin.message_filter import Query
from tiercel.admin.searched import Searched, Stretch
from tiercel.api.child_process import ChildFailedError, ChildProcess
from tiercel.api.search_process import question_of
from tiercel.engine.records import Record
from tiercel.model.errors import InvalidParameterError, ServiceNotAvailableError

_SLICE_S: Final = 30.0  # budget of one question; the process itself skips single messages long before


class MessageSearcher:
    def __init__(self) -> None:
        self._child = ChildProcess("tiercel.api.search_process")
        self._turn = asyncio.Lock()  # one question at a time, so that searches take turns

    async def search(
        self,
        query: Query,
        rows: Sequence[tuple[int, Record]],
        stretch: Stretch | None = None,
        limit: int = sys.maxsize,
    ) -> Searched:
        """Searches messages with their lookup ids, and a stretch of the store; at most `limit` are found."""
        question = question_of(query, rows, stretch, limit)
        async with self._turn:
            try:
                answer = json.loads(await self._child.ask(question, _SLICE_S))
            except (TimeoutError, ChildFailedError) as problem:
                problem_text = "it took too long or too much memory"
                fix = "use a simpler pattern, or search fewer messages"
                raise ServiceNotAvailableError("search", problem=problem_text, fix=fix) from problem
        if "error" in answer:
            if query.is_filter:
                raise InvalidParameterError("filter", problem=answer["error"], fix="correct it")
            wrong = f"not a valid regular expression ({answer['error']})"
            raise InvalidParameterError("pattern", problem=wrong, fix="correct it")
        return Searched(**answer)

    async def close(self) -> None:
        await self._child.close()
