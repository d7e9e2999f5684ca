"""The question to the process that decodes bodies."""

import struct
from typing import Final

QUESTION: Final = struct.Struct("<II")  # body type, size of the body; body and extension follow
