"""WCF over MSMQ: services and clients of NetMsmqBinding in Python.

    orders = wcf.Endpoint(qm, "net.msmq://warehouse/private/orders")
    with orders.client() as client:
        client.send("http://example.org/IOrders/Submit", {"order": {"id": 7}}, namespace="http://example.org/")

    service = wcf.Service(orders)

    @service.operation("http://example.org/IOrders/Submit")
    def submit(message: wcf.Envelope) -> None: ...

    service.run()

`tiercel.wcf.aio` has the same names for asyncio.
"""

from tiercel.wcf import aio
from tiercel.wcf.data_contract import Items, Long, data_contract, member
from tiercel.wcf.dispatcher import NotUnderstoodError, UnknownActionError
from tiercel.wcf.endpoint import Client, Endpoint
from tiercel.wcf.envelope import Envelope
from tiercel.wcf.poison import ReceiveErrorHandling, ServiceFaultedError
from tiercel.wcf.service import Service
from tiercel.wcf.wsdl import Port, read_wsdl

__all__ = [
    "Client",
    "Endpoint",
    "Envelope",
    "Items",
    "Long",
    "NotUnderstoodError",
    "Port",
    "ReceiveErrorHandling",
    "Service",
    "ServiceFaultedError",
    "UnknownActionError",
    "aio",
    "data_contract",
    "member",
    "read_wsdl",
]
