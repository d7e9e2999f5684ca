"""What people type for a queue."""

import pytest

from tiercel.http.names import queue_name, short_name
from tiercel.model.errors import MqError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("orders", r"DIRECT=OS:.\private$\orders"),
        (r"private$\orders", r"DIRECT=OS:.\private$\orders"),
        (r"PRIVATE$\orders", r"DIRECT=OS:.\private$\orders"),
        (r".\private$\orders", r"DIRECT=OS:.\private$\orders"),
        (r"host\private$\orders", r"DIRECT=OS:host\private$\orders"),
        (r".\orders", r"DIRECT=OS:.\orders"),
        ("orders;sub", r"DIRECT=OS:.\private$\orders;sub"),
        ("orders;Journal", r"DIRECT=OS:.\private$\orders;JOURNAL"),
        (";journal", r"DIRECT=OS:.\system$;JOURNAL"),
        (";DeadLetter", r"DIRECT=OS:.\system$;DEADLETTER"),
        (";deadxact", r"DIRECT=OS:.\system$;DEADXACT"),
        ("system$;deadxact", r"DIRECT=OS:.\system$;deadxact"),
        (r"DIRECT=TCP:192.0.2.1\orders", r"DIRECT=TCP:192.0.2.1\orders"),
        ("DIRECT=HTTP://host/msmq/orders", "DIRECT=HTTP://host/msmq/orders"),
        ("a=b", None),
        ("", None),
        ("a+b", None),
        (";nothing", None),
    ],
)
def test_means(text: str, name: str | None) -> None:
    if name is None:
        with pytest.raises(MqError):
            queue_name(text)
    else:
        assert str(queue_name(text)).casefold() == name.casefold()


def test_short_names_lead_back() -> None:
    for path in (
        r"HOST\private$\orders",
        r"HOST\orders",
        r"HOST\private$\orders;sub",
        r"HOST\system$;JOURNAL",
    ):
        again = str(queue_name(short_name(path)))
        assert again.partition("\\")[2] == path.partition("\\")[2]
