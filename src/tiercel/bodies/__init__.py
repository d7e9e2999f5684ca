"""What the applications wrote: bodies of messages to values, and values to bodies.

`decode(body, body_type)` reads text, numbers, XML, JSON, ActiveX types and what .NET's BinaryFormatter wrote;
it never raises, whatever the bytes, and executes nothing. `encode(value, form)` writes what Windows programs
read. Standard library only, so that a Spark worker, the command line and a web server can all use it.
"""

from tiercel.bodies.decoded import Decoded, Kind, Value
from tiercel.bodies.decoding import decode
from tiercel.bodies.encoding import Encoded, encode

__all__ = ["Decoded", "Encoded", "Kind", "Value", "decode", "encode"]
