"""The Python API: an embedded queue manager (`tiercel.open`), and remote queues (`tiercel.connect`).

`interfaces` has the types that user code is written for. `embedded_aio` and `remote_aio` implement them for
asyncio; `embedded` and `remote` are the synchronous faces, derived from these by `blocking`.
"""
