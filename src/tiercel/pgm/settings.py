"""The timers and limits of PGM, with the values of Windows where it has them: [MC-MQSRM] 2.1.3.1."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    # The source.
    rate_bytes_s: int = 70_000  # TXW_MAX_RTE: ODATA, RDATA and SPMs, with their IP headers
    bucket_s: float = 0.04  # the size of the token bucket, as time at this rate
    window_s: float = 300.0  # TXW_SECS: how long sent data can be repaired
    window_advance: float = 0.15  # TXW_ADV_SECS and TXW_ADV_IVL, as parts of TXW_SECS
    window_bytes: int = 32 << 20  # ours: memory for repairs; beyond it the window advances early
    ambient_packets: int = 50  # data packets between two ambient SPMs
    ambient_s: float = 0.5  # or this time, whichever comes first; 0 is never
    heartbeat_min_s: float = 1.0  # IHB_MIN
    heartbeat_max_s: float = 15.0  # IHB_MAX
    repair_delay_s: float = 0.06  # of RDATA at the leading edge; none at the trailing edge
    packet_bytes: int = 1500  # of an IP packet

    # The receiver.
    nak_back_off_min_s: float = 0.01  # NAK_RB_IVL, printed reversed
    nak_back_off_max_s: float = 0.05
    nak_repeat_s: float = 0.75  # NAK_RPT_IVL: wait for an NCF
    nak_data_s: float = 2.0  # NAK_RDATA_IVL: wait for the data
    ncf_retries: int = 10  # NAK_NCF_RETRIES
    data_retries: int = 10  # NAK_DATA_RETRIES
    multicast_naks: bool = True  # each NAK goes to the group, too, with TTL 1

    @property
    def advance_interval_s(self) -> float:
        return self.window_s * self.window_advance
