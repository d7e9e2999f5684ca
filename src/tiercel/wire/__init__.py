"""Bytes to values and back: the packets of [MS-MQMQ] 2.2.18 to 2.2.20, [MS-MQQB] 2.2 and [MS-MQRR] 2.2.5.

Every decoder is total: any bytes give a value or a `DecodeError`, and encoding what was decoded gives the
same bytes again. `framer` splits a stream into packets, `packet` identifies them, `message` maps them to
properties.
"""
