"""The Python API: an embedded queue manager (`tiercel.open`), and remote queues (`tiercel.connect`).

`interfaces` has the types that user code is written for. `embedded_aio` and `remote_aio` implement them for
asyncio. The synchronous faces come from these: `make synchronous` generates `embedded_sync` from
`embedded_aio`, and `remote` wraps `remote_aio` with `blocking`.
"""
