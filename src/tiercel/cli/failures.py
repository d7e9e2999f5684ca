"""Failures of a command: one line for people and an exit code for scripts."""

from tiercel.cli.exit_codes import ExitCode


class Failure(Exception):  # noqa: N818  # an exit code with its reason
    def __init__(self, line: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(line)
        self.code = code


def code_of(error: Exception) -> ExitCode | None:
    """The exit code of an error of Tiercel; None for any other."""
    from tiercel.model import errors  # noqa: PLC0415  # most commands never raise one

    codes: dict[type[BaseException], ExitCode] = {
        errors.AccessDeniedError: ExitCode.DENIED,
        errors.QueueNotFoundError: ExitCode.NOT_FOUND,
        errors.MessageNotFoundError: ExitCode.NOT_FOUND,
        errors.StoreInUseError: ExitCode.NO_STORE,
        errors.StoreDamagedError: ExitCode.NO_STORE,
        errors.StoreVersionError: ExitCode.NO_STORE,
        errors.StoreFailedError: ExitCode.NO_STORE,
        errors.MqError: ExitCode.FAILED,
    }
    return next((codes[kind] for kind in type(error).__mro__ if kind in codes), None)
