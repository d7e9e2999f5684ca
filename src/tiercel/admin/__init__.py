"""Operations on a queue manager, shared by every face: queues, messages, leases, claims, stages.

Nothing here knows HTTP. Each operation runs commands of the engine through a `Runner`: the daemon, or a store
that no daemon has open. Long operations run in slices, so that the event loop stays free for port 1801.
"""
