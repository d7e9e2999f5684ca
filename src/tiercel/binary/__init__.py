"""The protocol between queue managers, without sockets or clocks: [MS-MQQB]."""
