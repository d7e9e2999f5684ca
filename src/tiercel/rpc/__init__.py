"""Remote procedure calls over TCP, without sockets: [C706], [MS-RPCE].

`ServerConnection` and `ClientConnection` turn bytes into calls and answers back into bytes; stub data is read
and written with `ndr`. An authentication provider (`security`) and the interface decide who may call.
"""
