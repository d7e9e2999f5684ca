"""From the name of a computer to a link with its queue manager: [MS-MQRR] 3.2.3 and 3.2.4.1.

The port is the one given, else the one that the endpoint mapper names, else the fixed port of MSMQ. On the
fixed port the server is asked for its real one; `rebind` asks always, as Windows Server 2003 does.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid4

from tiercel.binary.settings import Settings
from tiercel.client.channel import Authenticate, Channel, Link
from tiercel.model.errors import (
    DecodeError,
    MqError,
    OperationNotSupportedByRemoteComputerError,
    RemoteMachineNotAvailableError,
    ResolveAddressError,
)
from tiercel.remote_read.calls import REMOTE_READ, GetServerPort, ServerPort
from tiercel.remote_read.failures import REJECTED_LOGON, error_of_fault
from tiercel.remote_read.settings import PORT
from tiercel.rpc import endpoint_mapper
from tiercel.rpc.endpoint_mapper import ENDPOINT_MAPPER, EPT_MAP, map_request, read_map_answer
from tiercel.rpc.status import RpcFault

RPC_TIMEOUT_S: Final = 300.0  # [MS-MQRR] 3.1.2.1
MESSAGE_PORT: Final = Settings().port
MAPPER_PORT = endpoint_mapper.PORT
SERVER_PORT = PORT
_MAPPER_TIMEOUT_S: Final = 5.0  # firewalls often drop packets to port 135


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    host: str
    port: int | None = None
    authenticate: Authenticate = lambda: None
    rebind: bool = False
    workgroup: bool = True
    connect_timeout_s: float = 20.0
    rpc_timeout_s: float = RPC_TIMEOUT_S
    reconnect_s: float = 30.0
    message_port: int = MESSAGE_PORT
    client_id: UUID = field(default_factory=uuid4)


async def dial(options: Options) -> Link:
    """A new link, bound and ready; failures are MqErrors."""
    channel, asks = await _first(options)
    if asks:
        channel = await _rebound(channel, options)

    async def another(group_id: int) -> Channel:
        return await Channel.open(
            REMOTE_READ,
            channel.peer,
            channel.port,
            options.authenticate,
            timeout=options.connect_timeout_s,
            group_id=group_id,
        )

    return Link(channel, another)


async def _first(options: Options) -> tuple[Channel, bool]:
    """The first connection, and whether to ask there for the real port."""
    if options.port is not None:
        return await _open(options, options.port), options.rebind
    try:
        port = await _ask_mapper(options)
    except ResolveAddressError:
        raise
    except (MqError, RpcFault, DecodeError) as error:
        try:
            return await _open(options, SERVER_PORT), True
        except (RemoteMachineNotAvailableError, OperationNotSupportedByRemoteComputerError) as second:
            raise _nowhere(options.host, error, second) from error
    return await _open(options, port), options.rebind


async def _open(options: Options, port: int) -> Channel:
    timeout = options.connect_timeout_s
    return await Channel.open(REMOTE_READ, options.host, port, options.authenticate, timeout=timeout)


async def _ask_mapper(options: Options) -> int:
    timeout = min(options.connect_timeout_s, _MAPPER_TIMEOUT_S)
    mapper = await Channel.open(ENDPOINT_MAPPER, options.host, MAPPER_PORT, lambda: None, timeout=timeout)
    try:
        question = map_request(REMOTE_READ.syntax)
        answer = await _in_time(mapper, EPT_MAP, question, timeout, "the endpoint mapper")
        return read_map_answer(answer, REMOTE_READ.syntax)[0]
    finally:
        await mapper.close()


async def _rebound(channel: Channel, options: Options) -> Channel:
    """Moves to the port that the server names, if any: R_GetServerPort, [MS-MQRR] 3.1.4.1."""
    try:
        stub = GetServerPort().encode()
        answer = await _in_time(
            channel, GetServerPort.OPNUM, stub, options.rpc_timeout_s, f"port {channel.port}"
        )
        port = ServerPort.decode(answer).port
    except RpcFault as fault:
        if fault.status in REJECTED_LOGON:  # the server closes the connection, so nothing can follow
            channel.abort()
            raise error_of_fault(fault, GetServerPort(), options.host) from fault
        port = 0
    except DecodeError:
        port = 0
    except BaseException:
        channel.abort()
        raise
    if not 0 < port <= 0xFFFF or port == channel.port:
        return channel
    await channel.close()
    return await _open(options, port)


async def _in_time(channel: Channel, opnum: int, stub: bytes, timeout: float, who: str) -> bytes:  # noqa: ASYNC109
    try:
        async with asyncio.timeout(timeout):
            return await channel.call(opnum, stub)
    except TimeoutError:
        raise RemoteMachineNotAvailableError(who, problem=f"it did not answer within {timeout:g} s") from None


def _nowhere(host: str, mapper: Exception, fixed: MqError) -> MqError:
    """The error when neither the endpoint mapper nor the fixed port leads to the interface."""
    asked = mapper.problem if isinstance(mapper, MqError) else str(mapper)
    told = f"the endpoint mapper (port {MAPPER_PORT}): {asked}; port {SERVER_PORT}: {fixed.problem}"
    if isinstance(mapper, RpcFault) or isinstance(fixed, OperationNotSupportedByRemoteComputerError):
        problem = f"it does not offer remote read ({told})"
        fix = "turn remote reading on there, pass its port, or read on that computer itself"
        return OperationNotSupportedByRemoteComputerError(host, problem=problem, fix=fix)
    return RemoteMachineNotAvailableError(host, problem=f"it cannot be reached ({told})")
