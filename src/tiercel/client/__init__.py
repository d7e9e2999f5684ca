"""The Python API: an embedded queue manager (`tiercel.open`), and those of others (`tiercel.connect`).

`interfaces` has the types that user code is written for. `embedded_aio`, `daemon_aio` (a running daemon, over
its HTTP API) and `remote_aio` (any computer, over MS-MQRR) implement them for asyncio. The synchronous faces
come from these: `make synchronous` generates `embedded_sync` and `daemon_sync`, and `remote` wraps
`remote_aio` with `blocking`.
"""
