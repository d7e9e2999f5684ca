"""WCF messages in the bodies of MSMQ messages: [MS-NMFMB] over [MC-NMF]. No sockets, clocks or queues.

`body` takes a body apart and puts it together, `envelopes` reads and writes the envelopes in it, `addresses`
turns net.msmq addresses into format names and back; `initiator` and `receiver` are the two machines of
[MS-NMFMB] 3. Standard library only.
"""
