"""The rules of a queue manager, [MS-MQDMPR], as a deterministic machine over a store.

`engine.Engine` takes commands and the time, and gives results and effects; it reads no clock, draws no random
number and does no I/O but through the store's batch. Its results are true only once the batch is committed:
its driver releases results and effects after `commit`, never before.
"""
