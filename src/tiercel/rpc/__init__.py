"""Remote procedure calls over TCP, without sockets: [C706], [MS-RPCE].

`ServerConnection` and `ClientConnection` convert between bytes and calls; `ndr` reads and writes stub data.
Authentication providers (`security`) and the interfaces decide who may call.
"""
