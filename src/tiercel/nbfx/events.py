"""The events that a document consists of. They are tuples, because a reader makes some hundred thousand a
second.

    ("start", prefix, name, namespace, attributes)      attributes in their order, declarations included
    ("text", value)                                     a value of `values.Value`
    ("end", joined)                                     joined: the text before it and the end are one record
    ("comment", text)
    ("array", prefix, name, namespace, attributes, record, values)
                                                        one element for each value

An attribute is (prefix, name, namespace, value). A declaration is an attribute in the namespace of xmlns:
("xmlns", "b", XMLNS, "urn:b"), or ("", "xmlns", XMLNS, "urn:b") for the default namespace.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from tiercel.nbfx.values import Value

XMLNS: Final = "http://www.w3.org/2000/xmlns/"
XML: Final = "http://www.w3.org/XML/1998/namespace"

Attribute = tuple[str, str, str, Value]
Attributes = tuple[Attribute, ...]
Start = tuple[Literal["start"], str, str, str, Attributes]
Text = tuple[Literal["text"], Value]
End = tuple[Literal["end"], bool]
Comment = tuple[Literal["comment"], str]
Array = tuple[Literal["array"], str, str, str, Attributes, int, tuple[Value, ...]]
Event = Start | Text | End | Comment | Array

END: Final[End] = ("end", True)
SEPARATE_END: Final[End] = ("end", False)  # an EndElement record of its own behind a text


def declaration(prefix: str, namespace: str) -> Attribute:
    """The attribute that binds a prefix; "" is the default namespace."""
    return ("xmlns", prefix, XMLNS, namespace) if prefix else ("", "xmlns", XMLNS, namespace)


def is_bindable(prefix: str, namespace: str) -> bool:
    """Whether a prefix may stand for a namespace: xml and xmlns have theirs, and nothing else has those."""
    if prefix == "xml":
        return namespace == XML
    return prefix != "xmlns" and namespace not in {XML, XMLNS}


def declare(scope: dict[str, str], declared: dict[str, str]) -> dict[str, str | None]:
    """Bind prefixes, and say what they were before.

    A copy of the scope for each element would let a small document take gigabytes.
    """
    before = {prefix: scope.get(prefix) for prefix in declared}
    scope.update(declared)
    return before


def restore(scope: dict[str, str], before: dict[str, str | None]) -> None:
    for prefix, namespace in before.items():
        if namespace is None:
            del scope[prefix]
        else:
            scope[prefix] = namespace


def without_arrays(events: Iterable[Event]) -> Iterator[Start | Text | End | Comment]:
    """The same document with each array spelled out as its elements."""
    for event in events:
        if event[0] == "array":
            start: Start = ("start", *event[1:5])
            for value in event[6]:
                yield start
                yield ("text", value)
                yield END
        else:
            yield event
