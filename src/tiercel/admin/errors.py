"""Errors that only these operations raise."""

from tiercel.model.errors import ServiceNotAvailableError


class BusyError(ServiceNotAvailableError):
    meaning = "too many concurrent readers"
    fix = "try again in a second"
