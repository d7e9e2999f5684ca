"""Reading the queues of another computer: [MS-MQRR].

The server is `service` (the machine) behind `server_stub` (the RPC side); the client is `reader`. Both share
the codecs `calls` and `packet`. Sockets and clocks are in `server` and `client`.
"""
