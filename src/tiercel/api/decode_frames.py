"""The frames between `BodyDecoder` and its process."""

import struct
from typing import Final

QUESTION: Final = struct.Struct("<III")  # body type, sizes of body and extension, which follow
ANSWER: Final = struct.Struct("<I")  # size of the JSON text that follows
