"""Errors that only these operations raise."""

from tiercel.model.errors import ServiceNotAvailableError


class BusyError(ServiceNotAvailableError):
    meaning = "too many clients read at once"
    fix = "try again in a second"
