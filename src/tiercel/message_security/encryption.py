"""The encryption of one queue manager: its own keys, those of others, and the caches of session keys.

A public key is found by the queue manager that a format name names: by its GUID, or, for a direct name, by
its host. [MS-MQQB] 5.1 has no encryption for direct names, because the directory has no keys for them. The
trust store has, so `encrypt_direct_names` allows it.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tiercel.message_security.body_encryption import BodyOpener, BodySealer, EncryptionPolicy, ExchangeKeys
from tiercel.message_security.providers import Provider
from tiercel.message_security.trust import Trust, TrustedQueueManager
from tiercel.model.errors import ComputerDoesNotSupportEncryptionError, PublicKeyNotFoundError
from tiercel.model.format_name import DirectFormatName, FormatName, PrivateFormatName
from tiercel.wire.user_message import UserMessage


class _NoKeys:
    def exchange_keys(self, provider: Provider) -> Sequence[RSAPrivateKey]:  # noqa: ARG002
        return ()


NO_KEYS: Final = _NoKeys()


class Encryption:
    def __init__(
        self,
        policy: EncryptionPolicy | None = None,
        keys: ExchangeKeys = NO_KEYS,
        trust: Callable[[], Trust] | None = None,
        *,
        encrypt_direct_names: bool = False,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Without keys nothing can be opened, and without a trust store nothing can be encrypted."""
        policy = policy or EncryptionPolicy()
        self.opener = BodyOpener(keys, policy)
        self.sealer = BodySealer(policy, random_bytes)
        self._trust = trust
        self._encrypt_direct_names = encrypt_direct_names

    def seal(self, packet: UserMessage, name: FormatName, now: float) -> UserMessage:
        """The packet encrypted for the queue manager of its destination: [MS-MQQB] 3.1.7.1.5.

        SecurityError if that is not possible.
        """
        receiver = self.receiver(name)
        return self.sealer.seal(packet, receiver.guid, receiver.keys, now)

    def check(self, name: FormatName) -> None:
        """SecurityError if `seal` will not be possible, as far as that is known here.

        A program that opens a store without the network has no trust store; the daemon that sends the
        message later has.
        """
        if self._trust is not None:
            self.receiver(name)

    @property
    def _known(self) -> Trust:
        return Trust() if self._trust is None else self._trust()

    def receiver(self, name: FormatName) -> TrustedQueueManager:
        """The queue manager with the key for a destination; SecurityError without one (MQQB-214)."""
        if isinstance(name, DirectFormatName):
            if not self._encrypt_direct_names:
                problem = "messages to direct names are not encrypted"
                fix = "set [security] encrypt_direct_names, or name the queue by the GUID of its computer"
                raise ComputerDoesNotSupportEncryptionError(str(name), problem=problem, fix=fix)
            found = self._known.queue_manager_at(name.host)
        elif isinstance(name, PrivateFormatName):
            found = self._known.queue_manager(name.queue_manager)
        else:
            found = None
        if found is None:
            fix = "add it with `tiercel trust fetch` or `tiercel trust add-key`"
            problem = "the trust store has no key of its computer"
            raise PublicKeyNotFoundError(str(name), problem=problem, fix=fix)
        return found
