"""A service in a process of its own, which says what it does so that it can be killed there."""

import sys

import tiercel
from tiercel import wcf

ADDRESS, ACTION = "net.msmq://localhost/private/orders", "urn:orders/Submit"


def main(directory: str) -> None:
    with tiercel.open(directory) as qm:
        service = wcf.Service(wcf.Endpoint(qm, ADDRESS))

        @service.operation(ACTION)
        def submit(message: wcf.Envelope) -> None:
            number = message.arguments["number"]
            print("start", number, flush=True)  # noqa: T201 - read by the test
            print("end", number, flush=True)  # noqa: T201

        service.run(timeout=0)


if __name__ == "__main__":
    main(sys.argv[1])
