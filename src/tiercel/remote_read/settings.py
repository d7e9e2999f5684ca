"""What an administrator may change about remote reading; the defaults are those of Windows."""

from dataclasses import dataclass

from tiercel.rpc.security import AuthenticationLevel

PORT = 2103
CLEANUP_S = 5 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int = PORT  # where the interface listens; 0 when it is not known
    # RpcCancelTimeout: how long a message that was handed out waits for its end ([MS-MQRR] 3.1.2.2).
    cleanup_s: float = CLEANUP_S
    # The least authentication that readers need; those on this computer itself need none.
    least_level: AuthenticationLevel = AuthenticationLevel.PRIVACY
    least_level_local: AuthenticationLevel = AuthenticationLevel.NONE
    # The switches of Windows that let strangers in (notes 19, 26 and 38).
    allow_unauthenticated: bool = False  # AllowNonauthenticatedRpc
    deny_workgroup_clients: bool = False  # NewRemoteReadServerDenyWorkgroupClient
    allow_anonymous: bool = False  # NewRemoteReadServerAllowNoneSecurityClient
    has_coordinator: bool = False  # whether somebody performs `Enlist`

    def __post_init__(self) -> None:
        if self.cleanup_s <= 0:
            raise ValueError(
                f"cleanup_s is {self.cleanup_s}; a reader needs some time to say what it received"
            )

    def least_level_for(self, *, is_workgroup: bool, is_local: bool) -> AuthenticationLevel:
        """What a client must prove; whether it is of a workgroup it says itself (MQRR trap 29)."""
        if self.allow_unauthenticated and (is_workgroup or not self.deny_workgroup_clients):
            return AuthenticationLevel.NONE
        return self.least_level_local if is_local else self.least_level
