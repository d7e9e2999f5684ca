"""WCF messages inside MSMQ bodies: [MS-NMFMB] over [MC-NMF]. No sockets, clocks or queues."""
