"""The protocol between queue managers, without sockets and clocks: [MS-MQQB]."""
