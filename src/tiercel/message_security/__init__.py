"""Message security: signatures, encrypted bodies, and the keys and certificates for both.

No I/O here. `rsa_keys` has CryptoAPI's formats on top of `cryptography`, `certificates` the certificates of
senders; `hash_input` says what a signature covers ([MS-MQMQ] 2.5), and `signatures` makes and verifies those
of whole packets ([MS-MQQB] 3.1.5.8.3, 3.1.7.1.4). `ciphers` and `body_encryption` do the same for encrypted
bodies (3.1.7.1.5). Access control is in `security`, beside this folder.
"""
