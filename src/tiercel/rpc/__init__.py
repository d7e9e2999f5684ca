"""Remote procedure calls over TCP, without sockets: [C706], [MS-RPCE].

`ServerConnection` and `ClientConnection` turn bytes into calls and answers back into bytes; stub data is read
and written with `ndr`. Who may call is for an authentication provider (`security`) and the interface to
decide.
"""
