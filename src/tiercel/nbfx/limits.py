"""Bounds on what a document may make a reader keep; a body of MSMQ itself has at most 4 MiB."""

from typing import Final

DEPTH_MAX: Final = 256  # open elements; .NET's default quota is 32
ATTRIBUTES_MAX: Final = 10_000  # of one element
ELEMENTS_MAX: Final = 1_000_000  # of one document, items of arrays included
NAME_MAX_BYTES: Final = 65_536  # a name, prefix or namespace
LIST_MAX: Final = 100_000  # values between StartListText and EndListText
SESSION_STRINGS_MAX: Final = 4_096  # of one session, over all its string tables
SESSION_BYTES_MAX: Final = 262_144  # the same in bytes; WCF's writers stop at 2,048
TEXT_MAX_CHARACTERS: Final = 16_000_000  # of one document as text: one record may repeat a long string
INT31_MAX: Final = 0x7FFF_FFFF
