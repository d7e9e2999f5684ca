"""Failures of a command: one line for people and an exit code for scripts."""

from tiercel.cli.exit_codes import ExitCode
from tiercel.model import errors
from tiercel.model.errors import MqError

_OF_ERRORS: dict[type[BaseException], ExitCode] = {
    errors.AccessDeniedError: ExitCode.DENIED,
    errors.QueueNotFoundError: ExitCode.NOT_FOUND,
    errors.MessageNotFoundError: ExitCode.NOT_FOUND,
    errors.StoreInUseError: ExitCode.NO_STORE,
    errors.StoreDamagedError: ExitCode.NO_STORE,
    errors.StoreVersionError: ExitCode.NO_STORE,
    errors.StoreFailedError: ExitCode.NO_STORE,
    MqError: ExitCode.FAILED,
}


class Failure(Exception):  # noqa: N818  # an exit code with its reason
    def __init__(self, line: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(line)
        self.code = code


def code_of(error: MqError) -> ExitCode:
    """The exit code of the nearest base class that has one."""
    return next(_OF_ERRORS[kind] for kind in type(error).__mro__ if kind in _OF_ERRORS)
