"""Remote procedure calls over TCP, without sockets: [C706], [MS-RPCE]."""
