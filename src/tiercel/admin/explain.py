"""Whether a message would reach a queue, and what is in its way: `tiercel explain`."""

from typing import Any, Final

from tiercel.admin.runner import Runner
from tiercel.engine.engine import Engine
from tiercel.engine.preflight import Finding, Planned, Result
from tiercel.model.errors import DecodeError, InvalidParameterError, MqError
from tiercel.model.format_name import DirectFormatName
from tiercel.model.queue_name import parse_queue_name
from tiercel.model.sid import ANONYMOUS, EVERYONE, SecurityIdentifier
from tiercel.security.access import Token

Json = dict[str, Any]

_KNOWN: Final = {"anonymous": ANONYMOUS, "everyone": EVERYONE}


class Explained:
    """The findings so far, and where a message would have to connect to."""

    def __init__(self, findings: list[Finding], goal: DirectFormatName | None = None) -> None:
        self.findings = findings
        self.goal = goal  # a queue of another computer; None for others

    @property
    def would_go(self) -> bool:
        return not any(each.result is Result.FAIL for each in self.findings)

    def add(self, result: Result, text: str) -> None:
        self.findings.append(Finding(result, text))

    def as_json(self) -> Json:
        error = next((each.error for each in self.findings if each.error is not None), None)
        return {
            "would_go": self.would_go,
            "error": None if error is None else error.name,
            "fix": None if error is None else error.fix,
            "findings": [{"result": str(each.result), "text": each.text} for each in self.findings],
        }


async def explain(runner: Runner, queue: str, planned: Planned, account: str | None) -> Explained:
    """What this queue manager itself can say; nothing is created, sent or connected."""
    token = None if account is None else _token(account)
    try:
        name = parse_queue_name(queue)
    except MqError as error:
        return Explained([Finding(Result.FAIL, str(error), error)])

    def command(engine: Engine) -> tuple[list[Finding], bool]:
        return list(engine.preflight.findings(name, planned, token)), engine.queues.is_local(name)

    findings, is_local = await runner.call(command)
    return Explained(findings, name if isinstance(name, DirectFormatName) and not is_local else None)


def _token(account: str) -> Token:
    if account.casefold() == "anonymous":
        return Token.anonymous()
    try:
        return Token.for_user(_KNOWN.get(account.casefold()) or SecurityIdentifier.parse(account))
    except (DecodeError, ValueError) as problem:
        fix = "give a SID as S-1-5-21-1-2-3-1001, everyone or anonymous"
        raise InvalidParameterError("account", present=repr(account[:80]), fix=fix) from problem
