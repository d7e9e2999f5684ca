"""What goes wrong in a verb, as one line for a person and an exit code for a script."""

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


class Failure(Exception):  # noqa: N818  # an exit code with its reason, and no error of Tiercel
    def __init__(self, line: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(line)
        self.code = code


def code_of(error: MqError) -> ExitCode:
    """By the nearest class that has one."""
    return next(_OF_ERRORS[kind] for kind in type(error).__mro__ if kind in _OF_ERRORS)
