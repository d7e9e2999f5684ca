"""Bounds on what others can make us keep or do: PGM has no authentication."""

SENT_APDU_MAX_BYTES = 65_535  # OpenPGM takes no more; we accept one more, as "64 kilobytes" may mean

# Of a source. A flood of NAKs must not displace data.
NCFS_A_SECOND = 200
SAME_REPAIR_S = 0.05  # the same NCF or RDATA is not sent twice within this time
OUTSIDE_SPMS_A_SECOND = 1  # answers to NAKs for numbers outside the window

# Of a receiver.
JUMP_MAX = 65_536  # numbers; a larger step must be confirmed by a second packet
JUMP_CONFIRMED_WITHIN = 1_000  # numbers between the two
TRACKED_MAX = 1_024  # missing numbers that have timers; the others wait in ranges
NAKS_A_SECOND = 20  # for each session
NAKS_A_SECOND_IN_ALL = 100
REPAIR_MAX_S = 60.0  # for one number, however often it was promised
BUFFERED_MAX_BYTES = 8 << 20  # in one session, behind a gap
BUFFERED_MAX_BYTES_IN_ALL = 64 << 20
PACKET_COST_BYTES = 200  # counted for each packet that is kept, beside its data

SESSIONS_A_GROUP = 256
CLOSED_KEPT = 1_024  # ended sessions that late packets must not open again, for each group
