"""Limits of a request. All are ours; the specification only sets 4 MB of message data (1.6)."""

from tiercel.model.limits import MAX_PACKET_SIZE

# A queue manager writes 250 bytes; proxies add their own headers.
HEAD_MAX_BYTES = 64 * 1024
HEADERS_MAX = 100
# Envelope and message data of a message that fits into a packet.
BODY_MAX_BYTES = MAX_PACKET_SIZE

# The envelope, the body and the extension; more are refused anyway.
PARTS_MAX = 8
PART_HEAD_MAX_BYTES = 8 * 1024
BOUNDARY_MAX_CHARACTERS = 200  # RFC 2046 allows 70

# An envelope with all properties has two kilobytes and sixty elements; lists of queues may be long.
ENVELOPE_MAX_BYTES = 1024 * 1024
ELEMENTS_MAX = 10_000
ATTRIBUTES_MAX = 64
DEPTH_MAX = 32
NAMESPACE_MAX_CHARACTERS = 1000  # the parser repeats it with every element
# A name has at most 382 characters; the rest is for a query.
URL_MAX_CHARACTERS = 2048
