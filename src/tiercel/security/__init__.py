"""Access control: security descriptors, the access check and the descriptor of a new queue.

`descriptor` turns bytes and text into values and back, `access` is the one place that decides, `defaults`
makes the descriptor of [MS-MQDMPR] 3.1.7.1.3.1, and `unix` gives the users of this computer their SIDs. The
specification's events check no access: code that opens a queue calls `access.allows` (DMPR T-35).
"""
