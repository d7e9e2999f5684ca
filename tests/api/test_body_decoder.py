"""Decoding in another process: hostile bodies cost their own request, and nothing else."""

import asyncio
import os
import signal

from data.served import PATIENCE_S
from tiercel.api.body_decoder import BodyDecoder, Json
from tiercel.model.message import Message

HOSTILE = Message(b"<r>" + 1_000_000 * b"<a/>" + b"</r>")  # takes seconds


async def decoded(decoder: BodyDecoder, *messages: Message) -> list[Json | None]:
    async with asyncio.timeout(PATIENCE_S):
        return await decoder.decode(messages)


def error(found: Json | None) -> str:
    assert found is not None
    return str(found.get("error"))


def test_bodies_of_all_kinds() -> None:
    async def main() -> list[Json | None]:
        decoder = BodyDecoder()
        messages = [Message(b'{"a": 1}'), Message(), Message("ä".encode("utf-16-le"), body_type=31)]
        try:
            return await decoded(decoder, *messages, Message(b"x", symmetric_key=b"key"))
        finally:
            await decoder.close()

    assert asyncio.run(main()) == [
        {"kind": "json", "text": '{"a": 1}'},
        None,
        {"kind": "text", "text": "ä"},
        {"kind": "encrypted", "text": None},
    ]


def test_a_body_over_its_budget_is_given_up_and_the_next_is_decoded() -> None:
    async def main() -> list[Json | None]:
        decoder = BodyDecoder(body_s=2)
        try:
            return [*await decoded(decoder, HOSTILE), *await decoded(decoder, Message(b"text"))]
        finally:
            await decoder.close()

    slow, quick = asyncio.run(main())
    assert error(slow) == "not decoded: it takes longer than 2 s"
    assert quick == {"kind": "text", "text": "text"} or "longer than 2 s" in error(quick)


def test_a_response_has_a_budget() -> None:
    async def main() -> list[Json | None]:
        decoder = BodyDecoder(body_s=0.2, request_s=0.3)
        try:
            return await decoded(decoder, *4 * [HOSTILE])
        finally:
            await decoder.close()

    errors = [error(each) for each in asyncio.run(main())]
    assert errors[-1] == "not decoded: the bodies of this response took longer than 0.3 s"


def test_a_decoder_that_was_killed_is_started_again() -> None:
    async def main() -> list[Json | None]:
        decoder = BodyDecoder(body_s=PATIENCE_S)
        try:
            await decoded(decoder, Message(b"first"))
            assert decoder._child._process is not None
            os.kill(decoder._child._process.pid, signal.SIGKILL)
            await decoder._child._process.wait()
            return await decoded(decoder, Message(b"second"))
        finally:
            await decoder.close()

    assert asyncio.run(main()) == [{"kind": "text", "text": "second"}]


def test_a_cancelled_request_leaves_no_answer_to_the_next() -> None:
    async def main() -> list[Json | None]:
        decoder = BodyDecoder(body_s=PATIENCE_S)
        try:
            waiting = asyncio.ensure_future(decoder.decode([HOSTILE]))
            while decoder._child._process is None:  # noqa: ASYNC110  # nobody tells when it has started
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            return await decoded(decoder, Message(b"mine"))
        finally:
            await decoder.close()

    assert asyncio.run(main()) == [{"kind": "text", "text": "mine"}]
