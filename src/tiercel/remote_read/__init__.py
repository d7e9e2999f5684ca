"""Reading the queues of another computer: [MS-MQRR].

The server is `service` (the machine) behind `server_stub` (its connections). `calls` and `packet` are codecs,
for clients as well. Sockets and clocks are elsewhere.
"""
