"""Every error that Tiercel raises, as one tree.

    TiercelError
      PeerError        the peer violated the protocol
        DecodeError    ... in its bytes: structure, field and offset
      MqError          the operation failed: one class per code of [MS-MQMQ] 2.4

Catch the class that you can act on; `code` is sent to RPC clients. An error names the object, the cause, the
present value, the limit, and the fix:

    queue orders: the quota is used up (present: 1025 KiB, limit: 1024 KiB). Receive or purge messages, ...
    [MQ_ERROR_INSUFFICIENT_RESOURCES 0xC00E0027]

Errors of invalid values are `ValueError`s too (of a wrong type also `TypeError`s), and `IoTimeoutError` is a
`TimeoutError`.

Quota, disk and access are three errors: `InsufficientResourcesError`, `StoreFullError`, `AccessDeniedError`.
The informational codes (0x400E....) are not errors: see `codes.Information`.
"""

from collections.abc import Callable
from functools import lru_cache


class TiercelError(Exception):
    """The base of all errors that Tiercel raises."""


class PeerError(TiercelError):
    """The peer violated the protocol."""


class DecodeError(PeerError):
    """Invalid bytes from outside; the only exception that a codec raises."""

    def __init__(self, structure: str, field: str, offset: int, problem: str) -> None:
        super().__init__(structure, field, offset, problem)
        self.structure = structure
        self.field = field
        self.offset = offset
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.structure}.{self.field} at byte {self.offset}: {self.problem}"


class MqError(TiercelError):
    """The operation failed; one subclass per code."""

    code: int = 0xC00E0001
    name: str = "MQ_ERROR"
    meaning: str = "the operation failed"
    fix: str = "see the log of the queue manager for the cause"

    def __init__(
        self,
        subject: str,
        *,
        problem: str | None = None,
        limit: object = None,
        present: object = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(subject)
        self.subject = subject
        self.problem = problem or self.meaning
        self.limit = limit
        self.present = present
        if fix is not None:
            self.fix = fix

    def __str__(self) -> str:
        values = (("present", self.present), ("limit", self.limit))
        known = ", ".join(f"{name}: {value}" for name, value in values if value is not None)
        facts = f" ({known})" if known else ""
        advice = self.fix[:1].upper() + self.fix[1:]
        return f"{self.subject}: {self.problem}{facts}. {advice}. [{self.name} 0x{self.code:08X}]"


class UnknownCodeError(MqError):
    """An unknown code, from another queue manager; `code` is that code."""

    meaning = "the other side sent a code that Tiercel does not know"

    def __reduce__(self) -> tuple[Callable[..., MqError], tuple[int, str], dict[str, object]]:
        return _make_again, (self.code, self.subject), self.__dict__


def error_for_code(code: int) -> type[MqError]:
    """The class of a code; an `UnknownCodeError` with the code if there is none."""
    code &= 0xFFFFFFFF  # an HRESULT may come as a signed number
    return _BY_CODE.get(code) or _unknown_code(code)


@lru_cache(maxsize=64)  # peers choose the codes, so the number of classes is limited
def _unknown_code(code: int) -> type[MqError]:
    return type(UnknownCodeError.__name__, (UnknownCodeError,), {"code": code, "name": "unknown code"})


def _make_again(code: int, subject: str) -> MqError:
    return error_for_code(code)(subject)


def _classes_by_code(root: type[MqError]) -> dict[int, type[MqError]]:
    found = {root.code: root} if "code" in vars(root) else {}
    for child in root.__subclasses__():
        found |= _classes_by_code(child)
    return found


# Queues and their names


class QueueNotFoundError(MqError):
    code, name = 0xC00E0003, "MQ_ERROR_QUEUE_NOT_FOUND"
    meaning = "no such queue exists"
    fix = "check the name, or create the queue"


class QueueExistsError(MqError):
    code, name = 0xC00E0005, "MQ_ERROR_QUEUE_EXISTS"
    meaning = "a queue of that name exists already"
    fix = "choose another name, or use the queue that is there"


class QueueDeletedError(MqError):
    code, name = 0xC00E005A, "MQ_ERROR_QUEUE_DELETED"
    meaning = "the queue was deleted while it was open"
    fix = "close the handle, and create the queue again if it is still wanted"


class QueueNotActiveError(MqError):
    code, name = 0xC00E0004, "MQ_ERROR_QUEUE_NOT_ACTIVE"
    meaning = "the queue is not open on this computer, and may not exist"
    fix = "open the queue or send to it first"


class QueueNotAvailableError(MqError):
    code, name = 0xC00E004B, "MQ_ERROR_QUEUE_NOT_AVAILABLE"
    meaning = "the other queue manager failed while it read the queue"
    fix = "check that it runs and can be reached, then try again"


class CorruptedQueueWasDeletedError(MqError):
    code, name = 0xC00E0068, "MQ_CORRUPTED_QUEUE_WAS_DELETED"
    meaning = "the stored description of the queue was damaged, and the queue was removed"
    fix = "create the queue again"


class IllegalQueuePathNameError(MqError, ValueError):
    code, name = 0xC00E0014, "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME"
    meaning = "this is not a path name of a queue"
    fix = "write it as COMPUTER\\QUEUE or .\\private$\\QUEUE"


class IllegalFormatNameError(MqError, ValueError):
    code, name = 0xC00E001E, "MQ_ERROR_ILLEGAL_FORMATNAME"
    meaning = "this is not a format name"
    fix = "write it like DIRECT=OS:computer\\private$\\queue"


class UnsupportedFormatNameOperationError(MqError):
    code, name = 0xC00E0020, "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION"
    meaning = "this kind of format name does not allow the operation"
    fix = "use the direct or private format name of one queue"


class LabelTooLongError(MqError, ValueError):
    code, name = 0xC00E005D, "MQ_ERROR_LABEL_TOO_LONG"
    meaning = "the label is too long"
    fix = "shorten the label"


class MachineNotFoundError(MqError):
    code, name = 0xC00E000D, "MQ_ERROR_MACHINE_NOT_FOUND"
    meaning = "no such computer is known"
    fix = "check the name of the computer"


class MachineExistsError(MqError):
    code, name = 0xC00E0040, "MQ_ERROR_MACHINE_EXISTS"
    meaning = "a computer of that name exists already"
    fix = "choose another name"


# Access and handles


class AccessDeniedError(MqError):
    code, name = 0xC00E0025, "MQ_ERROR_ACCESS_DENIED"
    meaning = "access is denied"
    fix = "ask the owner of the queue to grant the right, or use another account"


class PrivilegeNotHeldError(MqError):
    code, name = 0xC00E0026, "MQ_ERROR_PRIVILEGE_NOT_HELD"
    meaning = "the account lacks a privilege that the operation needs"
    fix = "use an account that holds it"


class SharingViolationError(MqError):
    code, name = 0xC00E0009, "MQ_ERROR_SHARING_VIOLATION"
    meaning = "the queue is open elsewhere in a way that excludes this"
    fix = "close the other handle, or open both without deny-receive"


class UnsupportedAccessModeError(MqError):
    code, name = 0xC00E0045, "MQ_ERROR_UNSUPPORTED_ACCESS_MODE"
    meaning = "this combination of access and share mode cannot be opened"
    fix = "open for send with deny-none, or for receive or peek"


class InvalidHandleError(MqError):
    code, name = 0xC00E0007, "MQ_ERROR_INVALID_HANDLE"
    meaning = "the handle is not open"
    fix = "open the queue and use the handle that this returns"


class StaleHandleError(MqError):
    code, name = 0xC00E0056, "MQ_ERROR_STALE_HANDLE"
    meaning = "the queue manager was restarted since the handle was opened"
    fix = "close the handle and open the queue again"


class InvalidOwnerError(MqError):
    code, name = 0xC00E0044, "MQ_ERROR_INVALID_OWNER"
    meaning = "the owner of the object is not valid"
    fix = "name an account that exists"


class IllegalUserError(MqError):
    code, name = 0xC00E0011, "MQ_ERROR_ILLEGAL_USER"
    meaning = "the user is not valid"
    fix = "name a user that exists"


class IllegalSecurityDescriptorError(MqError):
    code, name = 0xC00E0021, "MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR"
    meaning = "the security descriptor is not valid"
    fix = "pass a self-relative descriptor with owner and DACL"


class CannotImpersonateClientError(MqError):
    code, name = 0xC00E0024, "MQ_ERROR_CANNOT_IMPERSONATE_CLIENT"
    meaning = "the queue manager cannot act as the caller"
    fix = "allow impersonation on the connection"


class CouldNotGetUserSidError(MqError):
    code, name = 0xC00E0036, "MQ_ERROR_COULD_NOT_GET_USER_SID"
    meaning = "the security identifier of the caller cannot be found"
    fix = "check the account"


class CouldNotGetAccountInfoError(MqError):
    code, name = 0xC00E0037, "MQ_ERROR_COULD_NOT_GET_ACCOUNT_INFO"
    meaning = "the account of the caller cannot be looked up"
    fix = "check the account"


# Receiving


class IoTimeoutError(MqError, TimeoutError):
    code, name = 0xC00E001B, "MQ_ERROR_IO_TIMEOUT"
    meaning = "no message came within the time-out"
    fix = "wait longer, or treat it as an empty queue"


class OperationCancelledError(MqError):
    code, name = 0xC00E0008, "MQ_ERROR_OPERATION_CANCELLED"
    meaning = "the operation was cancelled before it ended"
    fix = "try again if the queue is still open"


class MessageNotFoundError(MqError):
    code, name = 0xC00E0088, "MQ_ERROR_MESSAGE_NOT_FOUND"
    meaning = "no message has that lookup identifier"
    fix = "treat it as received, moved or expired"


class MessageAlreadyReceivedError(MqError):
    code, name = 0xC00E001D, "MQ_ERROR_MESSAGE_ALREADY_RECEIVED"
    meaning = "the message at the cursor is no longer in the queue"
    fix = "move the cursor on with peek-next"


class MessageLockedUnderTransactionError(MqError):
    code, name = 0xC00E009C, "MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION"
    meaning = "another transaction holds the message"
    fix = "try again when that transaction has ended"


class IllegalCursorActionError(MqError):
    code, name = 0xC00E001C, "MQ_ERROR_ILLEGAL_CURSOR_ACTION"
    meaning = "the cursor stands on no message, so it cannot move on"
    fix = "peek at the current position first"


class IllegalOperationError(MqError):
    code, name = 0xC00E0064, "MQ_ERROR_ILLEGAL_OPERATION"
    meaning = "a foreign system does not allow the operation"
    fix = "run it on that system"


class UnsupportedOperationError(MqError):
    code, name = 0xC00E006A, "MQ_ERROR_UNSUPPORTED_OPERATION"
    meaning = "the operation needs a directory, and this computer uses none"
    fix = "use private queues and direct format names"


# Room: the quota here, the disk under "Tiercel's own"


class InsufficientResourcesError(MqError):
    code, name = 0xC00E0027, "MQ_ERROR_INSUFFICIENT_RESOURCES"
    meaning = "the quota is used up"
    fix = "receive or purge messages, or raise the quota"


class MessageStorageFailedError(MqError):
    code, name = 0xC00E002A, "MQ_ERROR_MESSAGE_STORAGE_FAILED"
    meaning = "the message could not be written to the store"
    fix = "check the disk and the log, then send again"


class BufferOverflowError(MqError):
    code, name = 0xC00E001A, "MQ_ERROR_BUFFER_OVERFLOW"
    meaning = "the buffer is too small for the message body"
    fix = "allow a larger body; the message is still in the queue"


# Parameters and properties


class InvalidParameterError(MqError, ValueError):
    code, name = 0xC00E0006, "MQ_ERROR_INVALID_PARAMETER"
    meaning = "a parameter is not valid"
    fix = "correct the parameter"


class PropertyError(MqError):
    code, name = 0xC00E0002, "MQ_ERROR_PROPERTY"
    meaning = "one or more properties are not valid"
    fix = "see the status of each property"


class PropertiesConflictError(MqError):
    code, name = 0xC00E0087, "MQ_ERROR_PROPERTIES_CONFLICT"
    meaning = "two properties contradict each other"
    fix = "leave one of them out"


class PropertyNotAllowedError(MqError):
    code, name = 0xC00E003E, "MQ_ERROR_PROPERTY_NOTALLOWED"
    meaning = "the property cannot be set here"
    fix = "leave the property out"


class InsufficientPropertiesError(MqError):
    code, name = 0xC00E003F, "MQ_ERROR_INSUFFICIENT_PROPERTIES"
    meaning = "a property that is needed is missing"
    fix = "add the property"


class TooManyPropertiesError(MqError):
    code, name = 0xC00E009A, "MQ_ERROR_TOO_MANY_PROPERTIES"
    meaning = "there are too many properties"
    fix = "pass fewer properties"


class IllegalPropertyValueError(MqError, ValueError):
    code, name = 0xC00E0018, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"
    meaning = "the value is not one that the property can have"
    fix = "pass a value within the limits"


class IllegalPropertyVariantTypeError(MqError, ValueError, TypeError):
    code, name = 0xC00E0019, "MQ_ERROR_ILLEGAL_PROPERTY_VT"
    meaning = "the value has the wrong type for the property"
    fix = "pass the type that the property has"


class IllegalPropertySizeError(MqError, ValueError):
    code, name = 0xC00E003B, "MQ_ERROR_ILLEGAL_PROPERTY_SIZE"
    meaning = "the value has the wrong size for the property"
    fix = "pass a value of the right size"


class MessageTooLargeError(IllegalPropertySizeError):
    meaning = "the message is too large"
    fix = "send it in parts"


class IllegalPropertyIdError(MqError):
    code, name = 0xC00E0039, "MQ_ERROR_ILLEGAL_PROPID"
    meaning = "there is no such property"
    fix = "correct the property identifier"


class MissingConnectorTypeError(MqError):
    code, name = 0xC00E0055, "MQ_ERROR_MISSING_CONNECTOR_TYPE"
    meaning = "the property needs a connector type beside it"
    fix = "set the connector type too"


class BadXmlFormatError(MqError):
    code, name = 0xC00E0092, "MQ_ERROR_BAD_XML_FORMAT"
    meaning = "the document is not the XML that is expected"
    fix = "correct the document"


class UninitializedObjectError(MqError):
    code, name = 0xC00E0094, "MQ_ERROR_UNINITIALIZED_OBJECT"
    meaning = "the object was used before it was set up"
    fix = "set up the object first"


class UnsupportedClassError(MqError):
    code, name = 0xC00E0093, "MQ_ERROR_UNSUPPORTED_CLASS"
    meaning = "the class is not supported"
    fix = "use another class"


class IllegalQueryError(MqError):
    """A question to the directory that it cannot answer; the classes below say which part."""

    fix = "correct the query"


class IllegalSortError(IllegalQueryError):
    code, name = 0xC00E0010, "MQ_ERROR_ILLEGAL_SORT"
    meaning = "the sort order is not valid"


class IllegalSortPropertyIdError(IllegalQueryError):
    code, name = 0xC00E005C, "MQ_ERROR_ILLEGAL_SORT_PROPID"
    meaning = "the property cannot be sorted by"


class MultiSortKeysError(IllegalQueryError):
    code, name = 0xC00E008D, "MQ_ERROR_MULTI_SORT_KEYS"
    meaning = "only one sort key is allowed"


class IllegalRelationError(IllegalQueryError):
    code, name = 0xC00E003A, "MQ_ERROR_ILLEGAL_RELATION"
    meaning = "the comparison is not valid"


class IllegalRestrictionPropertyIdError(IllegalQueryError):
    code, name = 0xC00E003C, "MQ_ERROR_ILLEGAL_RESTRICTION_PROPID"
    meaning = "the property cannot be filtered by"


class IllegalContextError(IllegalQueryError):
    code, name = 0xC00E005B, "MQ_ERROR_ILLEGAL_CONTEXT"
    meaning = "the context is not valid"


class IllegalMqColumnsError(IllegalQueryError):
    code, name = 0xC00E0038, "MQ_ERROR_ILLEGAL_MQCOLUMNS"
    meaning = "the list of columns is empty or missing"


class IllegalMqQueuePropertiesError(IllegalQueryError):
    code, name = 0xC00E003D, "MQ_ERROR_ILLEGAL_MQQUEUEPROPS"
    meaning = "the list of queue properties is empty or missing"


class IllegalMqQmPropertiesError(IllegalQueryError):
    code, name = 0xC00E0041, "MQ_ERROR_ILLEGAL_MQQMPROPS"
    meaning = "the list of computer properties is empty or missing"


class IllegalMqPrivatePropertiesError(IllegalQueryError):
    code, name = 0xC00E007B, "MQ_ERROR_ILLEGAL_MQPRIVATEPROPS"
    meaning = "the list of private properties is empty or missing"


# Transactions


class TransactionError(MqError):
    """What went wrong with a transaction; the classes below say what."""

    fix = "abort the transaction and start again"


class TransactionUsageError(TransactionError):
    code, name = 0xC00E0050, "MQ_ERROR_TRANSACTION_USAGE"
    meaning = "the queue and the call do not agree on being transactional"
    fix = "send to a transactional queue in a transaction, and to others without one"


class TransactionSequenceError(TransactionError):
    code, name = 0xC00E0051, "MQ_ERROR_TRANSACTION_SEQUENCE"
    meaning = "the transaction is in no state for this operation"


class TransactionImportError(TransactionError):
    code, name = 0xC00E004E, "MQ_ERROR_TRANSACTION_IMPORT"
    meaning = "the transaction of the caller cannot be taken over"


class TransactionEnlistError(TransactionError):
    code, name = 0xC00E0058, "MQ_ERROR_TRANSACTION_ENLIST"
    meaning = "the queue manager cannot join the transaction"


class DtcConnectError(TransactionError):
    code, name = 0xC00E004C, "MQ_ERROR_DTC_CONNECT"
    meaning = "the transaction coordinator cannot be reached"
    fix = "check that the coordinator runs, then start the transaction again"


# Other computers


class ServiceNotAvailableError(MqError):
    code, name = 0xC00E000B, "MQ_ERROR_SERVICE_NOT_AVAILABLE"
    meaning = "the queue manager cannot be reached"
    fix = "start the queue manager, then try again"


class RemoteMachineNotAvailableError(MqError):
    code, name = 0xC00E0069, "MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE"
    meaning = "the other computer cannot be reached"
    fix = "check that it runs and is reachable over the network, then try again"


class ResolveAddressError(MqError):
    code, name = 0xC00E0099, "MQ_ERROR_RESOLVE_ADDRESS"
    meaning = "the name of the computer leads to no address"
    fix = "check the name and the name service"


class OperationNotSupportedByRemoteComputerError(MqError):
    code, name = 0xC00E008B, "MQ_ERROR_OPERATION_NOT_SUPPORTED_BY_REMOTE_COMPUTER"
    meaning = "the other queue manager does not support the operation"
    fix = "read with the older interface, or on that computer itself"


class NotSupportedByDependentClientsError(MqError):
    code, name = 0xC00E008A, "MQ_ERROR_NOT_SUPPORTED_BY_DEPENDENT_CLIENTS"
    meaning = "a dependent client cannot do this"
    fix = "use an independent client"


class WorkstationCannotServeClientError(MqError):
    code, name = 0xC00E0066, "MQ_ERROR_WKS_CANT_SERVE_CLIENT"
    meaning = "a workstation serves no dependent clients"
    fix = "use a server"


class DependentClientLicenseOverflowError(MqError):
    code, name = 0xC00E0067, "MQ_ERROR_DEPEND_WKS_LICENSE_OVERFLOW"
    meaning = "too many clients are connected"
    fix = "close a connection and try again"


# Authentication, certificates and encryption


class SecurityError(MqError):
    """A signature, certificate or key that cannot be used; the classes below say which."""

    fix = "check the certificate and the keys of the account"


class MessageNotAuthenticatedError(SecurityError):
    code, name = 0xC00E009B, "MQ_ERROR_MESSAGE_NOT_AUTHENTICATED"
    meaning = "the message is not signed as the queue demands"
    fix = "sign the message, or let the queue take unsigned ones"


class InvalidCertificateError(SecurityError):
    code, name = 0xC00E002C, "MQ_ERROR_INVALID_CERTIFICATE"
    meaning = "the certificate is not valid"
    fix = "pass a valid X.509 certificate in DER form"


class CertificateNotProvidedError(SecurityError):
    code, name = 0xC00E006D, "MQ_ERROR_CERTIFICATE_NOT_PROVIDED"
    meaning = "a certificate is needed and none was passed"
    fix = "pass the certificate of the sender"


class ComputerDoesNotSupportEncryptionError(SecurityError):
    code, name = 0xC00E0033, "MQ_ERROR_COMPUTER_DOES_NOT_SUPPORT_ENCRYPTION"
    meaning = "the computer does not support encryption"
    fix = "send without encryption, or set up a public key"


class PublicKeyNotFoundError(SecurityError):
    code, name = 0xC00E0079, "MQ_ERROR_PUBLIC_KEY_NOT_FOUND"
    meaning = "the public key of the other computer cannot be found"
    fix = "set up its public key, or send without encryption"


class PublicKeyDoesNotExistError(SecurityError):
    code, name = 0xC00E007A, "MQ_ERROR_PUBLIC_KEY_DOES_NOT_EXIST"
    meaning = "the other computer has no public key"
    fix = "set up its public key, or send without encryption"


class EncryptionProviderNotSupportedError(SecurityError):
    code, name = 0xC00E006B, "MQ_ERROR_ENCRYPTION_PROVIDER_NOT_SUPPORTED"
    meaning = "the cryptographic provider is not supported"
    fix = "use a provider that both sides have"


class BadSecurityContextError(SecurityError):
    code, name = 0xC00E0035, "MQ_ERROR_BAD_SECURITY_CONTEXT"
    meaning = "the security context is not valid"


class CorruptedSecurityDataError(SecurityError):
    code, name = 0xC00E0030, "MQ_ERROR_CORRUPTED_SECURITY_DATA"
    meaning = "a cryptographic operation failed"


class CorruptedInternalCertificateError(SecurityError):
    code, name = 0xC00E002D, "MQ_ERROR_CORRUPTED_INTERNAL_CERTIFICATE"
    meaning = "the internal certificate is damaged"


class CorruptedPersonalCertStoreError(SecurityError):
    code, name = 0xC00E0031, "MQ_ERROR_CORRUPTED_PERSONAL_CERT_STORE"
    meaning = "the personal certificate store is damaged"


class InternalUserCertExistError(SecurityError):
    code, name = 0xC00E002E, "MQ_ERROR_INTERNAL_USER_CERT_EXIST"
    meaning = "the user has an internal certificate already"


class NoInternalUserCertError(SecurityError):
    code, name = 0xC00E002F, "MQ_ERROR_NO_INTERNAL_USER_CERT"
    meaning = "the user has no internal certificate"


class CannotCreateCertStoreError(SecurityError):
    code, name = 0xC00E006F, "MQ_ERROR_CANNOT_CREATE_CERT_STORE"
    meaning = "the certificate store cannot be created"


class CannotOpenCertStoreError(SecurityError):
    code, name = 0xC00E0070, "MQ_ERROR_CANNOT_OPEN_CERT_STORE"
    meaning = "the certificate store cannot be opened"


class CannotSetCryptoSecurityDescriptorError(SecurityError):
    code, name = 0xC00E006C, "MQ_ERROR_CANNOT_SET_CRYPTO_SEC_DESCR"
    meaning = "the rights of the key container cannot be set"


class CannotCreateHashExError(SecurityError):
    code, name = 0xC00E0081, "MQ_ERROR_CANNOT_CREATE_HASH_EX"
    meaning = "the hash cannot be started"


class CannotHashDataExError(SecurityError):
    code, name = 0xC00E007F, "MQ_ERROR_CANNOT_HASH_DATA_EX"
    meaning = "the data cannot be hashed"


class CannotSignDataExError(SecurityError):
    code, name = 0xC00E0080, "MQ_ERROR_CANNOT_SIGN_DATA_EX"
    meaning = "the data cannot be signed"


class FailVerifySignatureExError(SecurityError):
    code, name = 0xC00E0082, "MQ_ERROR_FAIL_VERIFY_SIGNATURE_EX"
    meaning = "the signature does not match the data"


# Buffers of a caller over RPC or COM


class BufferTooSmallError(MqError):
    """A caller's buffer that cannot take the answer; the classes below say which."""

    fix = "pass a larger buffer"


class UserBufferTooSmallError(BufferTooSmallError):
    code, name = 0xC00E0028, "MQ_ERROR_USER_BUFFER_TOO_SMALL"
    meaning = "the buffer is too small"


class ResultBufferTooSmallError(BufferTooSmallError):
    code, name = 0xC00E0046, "MQ_ERROR_RESULT_BUFFER_TOO_SMALL"
    meaning = "the buffer for the result is too small"


class LabelBufferTooSmallError(BufferTooSmallError):
    code, name = 0xC00E005E, "MQ_ERROR_LABEL_BUFFER_TOO_SMALL"
    meaning = "the buffer for the label is too small"


class FormatNameBufferTooSmallError(BufferTooSmallError):
    code, name = 0xC00E001F, "MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL"
    meaning = "the buffer for the format name is too small"


class SenderIdBufferTooSmallError(BufferTooSmallError):
    code, name = 0xC00E0022, "MQ_ERROR_SENDERID_BUFFER_TOO_SMALL"
    meaning = "the buffer for the sender identifier is too small"


class SenderCertBufferTooSmallError(BufferTooSmallError):
    code, name = 0xC00E002B, "MQ_ERROR_SENDER_CERT_BUFFER_TOO_SMALL"
    meaning = "the buffer for the sender certificate is too small"


class SecurityDescriptorTooSmallError(BufferTooSmallError):
    code, name = 0xC00E0023, "MQ_ERROR_SECURITY_DESCRIPTOR_TOO_SMALL"
    meaning = "the buffer for the security descriptor is too small"


class SymmetricKeyBufferTooSmallError(BufferTooSmallError):
    code, name = 0xC00E0061, "MQ_ERROR_SYMM_KEY_BUFFER_TOO_SMALL"
    meaning = "the buffer for the symmetric key is too small"


class SignatureBufferTooSmallError(BufferTooSmallError):
    code, name = 0xC00E0062, "MQ_ERROR_SIGNATURE_BUFFER_TOO_SMALL"
    meaning = "the buffer for the signature is too small"


class ProviderNameBufferTooSmallError(BufferTooSmallError):
    code, name = 0xC00E0063, "MQ_ERROR_PROV_NAME_BUFFER_TOO_SMALL"
    meaning = "the buffer for the provider name is too small"


# The directory and its setup: Tiercel passes these codes on and rarely raises one


class DirectoryError(MqError):
    """What a directory service answered; the classes below say what."""

    fix = "ask the administrator of the directory"


class NoDsError(DirectoryError):
    code, name = 0xC00E0013, "MQ_ERROR_NO_DS"
    meaning = "there is no directory service"
    fix = "use direct format names and private queues"


class DsError(DirectoryError):
    code, name = 0xC00E0043, "MQ_ERROR_DS_ERROR"
    meaning = "the directory service failed"


class DsIsFullError(DirectoryError):
    code, name = 0xC00E0042, "MQ_ERROR_DS_IS_FULL"
    meaning = "the directory is full"


class DsLocalUserError(DirectoryError):
    code, name = 0xC00E0090, "MQ_ERROR_DS_LOCAL_USER"
    meaning = "a local user cannot use the directory"


class DsBindRootForestError(DirectoryError):
    code, name = 0xC00E008F, "MQ_ERROR_DS_BIND_ROOT_FOREST"
    meaning = "the root of the forest cannot be reached"


class NoResponseFromObjectServerError(DirectoryError):
    code, name = 0xC00E0049, "MQ_ERROR_NO_RESPONSE_FROM_OBJECT_SERVER"
    meaning = "the directory server does not answer"


class ObjectServerNotAvailableError(DirectoryError):
    code, name = 0xC00E004A, "MQ_ERROR_OBJECT_SERVER_NOT_AVAILABLE"
    meaning = "the directory server cannot be reached"


class NotACorrectObjectClassError(DirectoryError):
    code, name = 0xC00E008C, "MQ_ERROR_NOT_A_CORRECT_OBJECT_CLASS"
    meaning = "the directory object is of another class"


class GuidNotMatchingError(DirectoryError):
    code, name = 0xC00E0078, "MQ_ERROR_GUID_NOT_MATCHING"
    meaning = "the directory object cannot be given the identifier of the computer"


class QDnsPropertyNotSupportedError(DirectoryError):
    code, name = 0xC00E006E, "MQ_ERROR_Q_DNS_PROPERTY_NOT_SUPPORTED"
    meaning = "the directory does not know the DNS path name property"


class QAdsPropertyNotSupportedError(DirectoryError):
    code, name = 0xC00E0091, "MQ_ERROR_Q_ADS_PROPERTY_NOT_SUPPORTED"
    meaning = "the directory does not know the directory path property"


class CannotResolveSitesError(DirectoryError):
    code, name = 0xC00E0089, "MQ_ERROR_CANT_RESOLVE_SITES"
    meaning = "the sites of the computer cannot be found"


class DeleteCnInUseError(DirectoryError):
    code, name = 0xC00E0048, "MQ_ERROR_DELETE_CN_IN_USE"
    meaning = "the connected network is in use and cannot be deleted"


class IllegalEnterpriseOperationError(DirectoryError):
    code, name = 0xC00E0071, "MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION"
    meaning = "the enterprise object does not allow the operation"


class GcNeededError(DirectoryError):
    code, name = 0xC00E008E, "MQ_ERROR_GC_NEEDED"
    meaning = "an object with that identifier can be created on a global catalog server only"


class NoGcInDomainError(DirectoryError):
    code, name = 0xC00E007C, "MQ_ERROR_NO_GC_IN_DOMAIN"
    meaning = "the domain has no global catalog server"


class NoMsmqServersOnDcError(DirectoryError):
    code, name = 0xC00E0075, "MQ_ERROR_NO_MSMQ_SERVERS_ON_DC"
    meaning = "no domain controller runs message queuing"


class NoMsmqServersOnGcError(DirectoryError):
    code, name = 0xC00E007D, "MQ_ERROR_NO_MSMQ_SERVERS_ON_GC"
    meaning = "no global catalog server runs message queuing"


class NoMqUserOuError(DirectoryError):
    code, name = 0xC00E0084, "MQ_ERROR_NO_MQUSER_OU"
    meaning = "the directory has no container for message queuing users"


class CannotCreateOnGcError(DirectoryError):
    code, name = 0xC00E0077, "MQ_ERROR_CANNOT_CREATE_ON_GC"
    meaning = "the object cannot be created on a global catalog server"


class CannotGrantAddGuidError(DirectoryError):
    code, name = 0xC00E0072, "MQ_ERROR_CANNOT_GRANT_ADD_GUID"
    meaning = "the right to choose the identifier cannot be granted"


class CannotGetDnError(DirectoryError):
    code, name = 0xC00E007E, "MQ_ERROR_CANNOT_GET_DN"
    meaning = "the distinguished name of the computer cannot be found"


class CannotJoinDomainError(DirectoryError):
    code, name = 0xC00E0076, "MQ_ERROR_CANNOT_JOIN_DOMAIN"
    meaning = "the computer joined the domain, but cannot register itself in the directory"


class CannotCreatePscObjectsError(DirectoryError):
    code, name = 0xC00E0095, "MQ_ERROR_CANNOT_CREATE_PSC_OBJECTS"
    meaning = "only the primary site controller can create the object"


class CannotUpdatePscObjectsError(DirectoryError):
    code, name = 0xC00E0096, "MQ_ERROR_CANNOT_UPDATE_PSC_OBJECTS"
    meaning = "only the primary site controller can change the object"


class CannotDeletePscObjectsError(DirectoryError):
    code, name = 0xC00E0083, "MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS"
    meaning = "only the primary site controller can delete the object"


class MqisServerEmptyError(DirectoryError):
    code, name = 0xC00E005F, "MQ_ERROR_MQIS_SERVER_EMPTY"
    meaning = "the list of directory servers is empty"


class WriteNotAllowedError(DirectoryError):
    code, name = 0xC00E0065, "MQ_ERROR_WRITE_NOT_ALLOWED"
    meaning = "the directory is being set up and takes no changes now"
    fix = "try again later"


class MqisReadOnlyModeError(DirectoryError):
    code, name = 0xC00E0060, "MQ_ERROR_MQIS_READONLY_MODE"
    meaning = "the directory database is read-only"


class MqdsUnknownSourceError(DirectoryError):
    code, name = 0xC00E0504, "MQDS_UNKNOWN_SOURCE"
    meaning = "the source of the directory change is unknown"


class CannotLoadMqadError(DirectoryError):
    code, name = 0xC00E0085, "MQ_ERROR_CANNOT_LOAD_MQAD"
    meaning = "the Windows component MQAD cannot be loaded"


class CannotLoadMqdssrvError(DirectoryError):
    code, name = 0xC00E0086, "MQ_ERROR_CANNOT_LOAD_MQDSSRV"
    meaning = "the Windows component MQDSSRV cannot be loaded"


class CannotLoadMsmqocmError(DirectoryError):
    code, name = 0xC00E0073, "MQ_ERROR_CANNOT_LOAD_MSMQOCM"
    meaning = "the Windows component MSMQOCM cannot be loaded"


class NoEntryPointMsmqocmError(DirectoryError):
    code, name = 0xC00E0074, "MQ_ERROR_NO_ENTRY_POINT_MSMQOCM"
    meaning = "the Windows component MSMQOCM lacks a function"


# Tiercel's own: bit 0x20000000 marks codes that the specification does not have ([MS-MQDMPR] 1.8)


class StoreFullError(MqError):
    code, name = 0xE00E0001, "TIERCEL_ERROR_STORE_FULL"
    meaning = "the disk or the file of the store is full"
    fix = "free disk space, or raise the size limit of the store"


class StoreFailedError(MqError):
    code, name = 0xE00E0002, "TIERCEL_ERROR_STORE_FAILED"
    meaning = "the store cannot be read or written"
    fix = "fix the cause, then restart the queue manager: it resumes from the last commit"


class StoreDamagedError(MqError):
    code, name = 0xE00E0003, "TIERCEL_ERROR_STORE_DAMAGED"
    meaning = "the file of the store is damaged"
    fix = "run tiercel check on the directory, or restore a backup"


class StoreVersionError(MqError):
    code, name = 0xE00E0004, "TIERCEL_ERROR_STORE_VERSION"
    meaning = "the store has a format that this version of Tiercel does not know"
    fix = "open it with the version of Tiercel that wrote it, or a later one"


class StoreInUseError(MqError):
    code, name = 0xE00E0005, "TIERCEL_ERROR_STORE_IN_USE"
    meaning = "the store is already open"
    fix = "stop the process that has it open, or use another directory"


class ConsumerFencedError(MqError):
    code, name = 0xE00E0010, "TIERCEL_ERROR_CONSUMER_FENCED"
    meaning = "the consumer was attached again, or its claims were released, since this run attached it"
    fix = "use the name in one run at a time, or attach again and continue from the list of claims"


class ConsumerNotFoundError(MqError):
    code, name = 0xE00E0011, "TIERCEL_ERROR_CONSUMER_NOT_FOUND"
    meaning = "there is no consumer of that name"
    fix = "check the name in the list of claims, or attach it first"


class ClaimLostError(MqError):
    code, name = 0xE00E0012, "TIERCEL_ERROR_CLAIM_LOST"
    meaning = "these messages are not among those that the consumer holds"
    fix = "continue from the numbers in the list of claims, and look for missing messages elsewhere"


class StageRefusedError(MqError):
    code, name = 0xE00E0020, "TIERCEL_ERROR_STAGE_REFUSED"
    meaning = "its batch has ended and accepts no more stages"
    fix = "do nothing if the batch was published; otherwise stage it under a new batch"


class StageNotFoundError(MqError):
    code, name = 0xE00E0021, "TIERCEL_ERROR_STAGE_NOT_FOUND"
    meaning = "there is no such stage, so nothing was published"
    fix = "run the task again; unpublished stages are removed after a day"


class OperationNotFoundError(MqError):
    code, name = 0xE00E0033, "TIERCEL_ERROR_OPERATION_NOT_FOUND"
    meaning = "there is no such operation"
    fix = "see `tiercel operations`"


class TokenNotFoundError(MqError):
    code, name = 0xE00E0050, "TIERCEL_ERROR_TOKEN_NOT_FOUND"
    meaning = "there is no token of that name"
    fix = "see `tiercel token ls`"


class StageBusyError(MqError):
    code, name = 0xE00E0022, "TIERCEL_ERROR_STAGE_BUSY"
    meaning = "it is being published right now"
    fix = "retry in a moment: the second publish reports the result of the first"


class LeaseEndedError(MqError):
    code, name = 0xE00E0030, "TIERCEL_ERROR_LEASE_ENDED"
    meaning = "the lease has ended"
    fix = "receive again: messages not acknowledged in time are back in the queue"


class LeaseNotFoundError(LeaseEndedError):
    code, name = 0xE00E0032, "TIERCEL_ERROR_LEASE_NOT_FOUND"
    meaning = "no such lease: never given, ended long ago, or ended by a restart of the queue manager"
    fix = "check the id, or receive again: messages not acknowledged in time are back in the queue"


class TooLargeError(IllegalPropertySizeError):
    code, name = 0xE00E0031, "TIERCEL_ERROR_TOO_LARGE"
    meaning = "the request is too large"
    fix = "send it in parts"


class ReachedOurselvesError(RemoteMachineNotAvailableError):
    code, name = 0xE00E0040, "TIERCEL_ERROR_REACHED_OURSELVES"
    meaning = "the address leads to this queue manager itself"
    fix = "add the name or address to [node] names"


_BY_CODE = _classes_by_code(MqError)
