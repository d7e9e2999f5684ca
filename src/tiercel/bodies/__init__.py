"""Message bodies to values, and values to bodies.

`decode(body, body_type)` decodes text, numbers, XML, JSON, ActiveX types and .NET BinaryFormatter data; it
never raises and executes nothing. `encode(value, form)` writes bodies for Windows programs. Standard library
only, so that a Spark worker, the command line and a web server can all use it.
"""

from tiercel.bodies.bus_headers import bus_headers
from tiercel.bodies.decoded import Decoded, Kind, Value
from tiercel.bodies.decoding import decode
from tiercel.bodies.encoding import Encoded, encode

__all__ = ["Decoded", "Encoded", "Kind", "Value", "bus_headers", "decode", "encode"]
