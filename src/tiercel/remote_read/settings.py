"""Settings of remote reading; the defaults are those of Windows."""

from dataclasses import dataclass

from tiercel.rpc.security import AuthenticationLevel

PORT = 2103
CLEANUP_S = 5 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int = PORT  # of the interface; 0 if unknown
    # RpcCancelTimeout: time limit for the acknowledgement of a delivered message ([MS-MQRR] 3.1.2.2).
    cleanup_s: float = CLEANUP_S
    # The lowest accepted authentication level; readers on this computer need none.
    least_level: AuthenticationLevel = AuthenticationLevel.PRIVACY
    least_level_local: AuthenticationLevel = AuthenticationLevel.NONE
    # Windows settings that admit unauthenticated clients (notes 19, 26 and 38).
    allow_unauthenticated: bool = False  # AllowNonauthenticatedRpc
    deny_workgroup_clients: bool = False  # NewRemoteReadServerDenyWorkgroupClient
    allow_anonymous: bool = False  # NewRemoteReadServerAllowNoneSecurityClient
    has_coordinator: bool = False  # whether `Enlist` is performed

    def __post_init__(self) -> None:
        if self.cleanup_s <= 0:
            raise ValueError(
                f"cleanup_s must be over 0, not {self.cleanup_s}: readers need time to acknowledge"
            )

    def least_level_for(self, *, is_workgroup: bool, is_local: bool) -> AuthenticationLevel:
        """The lowest accepted level; workgroup membership is the client's own claim (MQRR trap 29)."""
        if self.allow_unauthenticated and (is_workgroup or not self.deny_workgroup_clients):
            return AuthenticationLevel.NONE
        return self.least_level_local if is_local else self.least_level
