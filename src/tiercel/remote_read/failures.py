"""The reader's errors for failed calls.

A method returns an HRESULT, an NTSTATUS (MQRR trap 24) or a fault, whose status may be either of them
(MQRR trap 25). The other results of a failed call are ignored (MQRR-056).
"""

from typing import Final

from tiercel.model.codes import Status
from tiercel.model.errors import (
    AccessDeniedError,
    InvalidHandleError,
    InvalidParameterError,
    MqError,
    OperationNotSupportedByRemoteComputerError,
    QueueNotAvailableError,
    StaleHandleError,
    error_for_code,
)
from tiercel.remote_read.calls import Request, Response
from tiercel.rpc import status as status_codes
from tiercel.rpc.status import RpcFault

_FAILURE: Final = 0x8000_0000  # the severity bit of an HRESULT; without it, the call succeeded
_MSMQ: Final = 0xC00E_0000
_FACILITY: Final = 0xFFFF_0000

REJECTED_LOGON: Final = frozenset(
    {status_codes.ERROR_ACCESS_DENIED, status_codes.NCA_S_UNSUPPORTED_AUTHN_LEVEL}
)

_OF_STATUS: Final[dict[int, type[MqError]]] = {
    Status.INVALID_HANDLE: InvalidHandleError,
    Status.INVALID_PARAMETER: InvalidParameterError,
    Status.ACCESS_DENIED: AccessDeniedError,
}


def check(response: Response, subject: str) -> None:
    """Raise the error of a failed response."""
    status = getattr(response, "status", 0)
    if status & _FAILURE:
        raise failure(status, subject)


def failure(status: int, subject: str) -> MqError:
    return _OF_STATUS.get(status, error_for_code(status))(subject)


def error_of_fault(fault: RpcFault, request: Request, subject: str) -> MqError:
    """The error of a call that ended in a fault."""
    status = fault.status
    if status & _FACILITY == _MSMQ or status in _OF_STATUS:
        return failure(status, subject)
    match status:
        case status_codes.NCA_S_OP_RNG_ERROR:
            problem = f"its server has no operation {request.OPNUM} ({type(request).__name__})"
            fix = "run it on that computer: Windows Server 2003 and older cannot do it remotely"
            return OperationNotSupportedByRemoteComputerError(subject, problem=problem, fix=fix)
        case status_codes.NCA_S_FAULT_CONTEXT_MISMATCH:
            return StaleHandleError(subject)
    if status in REJECTED_LOGON:
        problem = "the server rejected the user, the password or the authentication level"
        fix = "connect with a user, password and level that it accepts"
        return AccessDeniedError(subject, problem=problem, fix=fix)
    return QueueNotAvailableError(subject, problem=str(fault))
