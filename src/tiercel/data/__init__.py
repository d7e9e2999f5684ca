"""The data endpoint: bulk reads and writes as Arrow IPC streams over HTTP.

A separate process (`process`) serves it: it checks tokens, reads bulk from store snapshots and forwards
everything else to the daemon (`daemon_client`), which answers on its Unix socket (`daemon_app`). `endpoint`
starts and watches that process. The daemon itself imports neither Arrow nor numpy.
"""
