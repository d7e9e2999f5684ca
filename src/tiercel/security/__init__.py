"""Who may do what: security descriptors, the access check and the descriptor that a new queue gets.

`descriptor` turns bytes and text into values and back, `access` is the one place that decides, `defaults`
makes the descriptor of [MS-MQDMPR] 3.1.7.1.3.1, and `unix` gives the users of this computer their SIDs. The
specification's events check no access: whoever opens a queue for somebody calls `access.allows` (DMPR T-35).
"""
