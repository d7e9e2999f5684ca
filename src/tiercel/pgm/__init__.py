"""Multicast messages: SRMP over PGM. RFC 3208 as [MC-MQSRM] 2.1.3 profiles it.

`packet` is the codec. `source` and `session` are the two ends of a transport session, without I/O: packets
and `now` in, packets out. `protocol` is the carrier: it sends what goes to MULTICAST= names and gives what
arrives to the subscribed queues. The sockets are in `server/multicast_network.py`.
"""
