"""Status codes of faults, [C706] appendix N.2 and [MS-RPCE], and the error that carries one."""

from typing import Final

from tiercel.model.errors import TiercelError

ERROR_ACCESS_DENIED: Final = 0x00000005
RPC_S_UNKNOWN_AUTHN_SERVICE: Final = 0x000006D3
EPT_S_CANT_PERFORM_OP: Final = 0x000006D8
EPT_S_NOT_REGISTERED: Final = 0x000006D9
RPC_X_BAD_STUB_DATA: Final = 0x000006F7
EPT_S_NO_MORE_ENTRIES: Final = 0x16C9A0D6
NCA_S_FAULT_CANCEL: Final = 0x1C00000D
NCA_S_FAULT_UNSPEC: Final = 0x1C000012
NCA_S_FAULT_CONTEXT_MISMATCH: Final = 0x1C00001A
NCA_S_FAULT_REMOTE_NO_MEMORY: Final = 0x1C00001B
NCA_S_INVALID_PRES_CONTEXT_ID: Final = 0x1C00001C
NCA_S_UNSUPPORTED_AUTHN_LEVEL: Final = 0x1C00001D
NCA_S_INVALID_CHECKSUM: Final = 0x1C00001F
NCA_S_OP_RNG_ERROR: Final = 0x1C010002
NCA_S_UNK_IF: Final = 0x1C010003
NCA_S_PROTO_ERROR: Final = 0x1C01000B
NCA_S_SERVER_TOO_BUSY: Final = 0x1C010014

# [MS-RPCE] 3.3.3.5.1: a server must not send these.
FORBIDDEN: Final = frozenset({
    0x00000000,
    0x80000001,
    0x80000002,
    0x80000003,
    0xC0000005,
    0xC0000006,
    0xC000001D,
    0xC0000096,
    0xC00000AA,
    0xC00000FD,
    0xC0000194,
    0xC0000235,
    0xC0000409,
    0xC0000420,
})  # fmt: skip

_NAMES: Final = {value: name for name, value in vars().copy().items() if isinstance(value, int)}


class RpcFault(TiercelError):  # noqa: N818 - the specification's word for it
    """A call that ended in a fault; any 32-bit status is possible, not only those above."""

    def __init__(self, status: int, problem: str = "") -> None:
        super().__init__(status, problem)
        self.status = status
        self.problem = problem

    def __str__(self) -> str:
        name = _NAMES.get(self.status, "a status of the called interface")
        reason = f": {self.problem}" if self.problem else ""
        return f"the call failed with 0x{self.status:08X} ({name}){reason}"
