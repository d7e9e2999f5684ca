"""Events to the elements of xml.etree.ElementTree and back.

An element's text is what XML text would have there. What elements cannot carry stands beside them in a
`Document`: the typed values, and the prefixes in scope, which text such as `xsi:type="b:Order"` refers to.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.etree.ElementTree import Comment, Element, ProcessingInstruction, QName

from tiercel.model.errors import DecodeError
from tiercel.nbfx.dictionary import DictionaryString
from tiercel.nbfx.events import END, XML, XMLNS, Attribute, Event, declaration, without_arrays
from tiercel.nbfx.limits import DEPTH_MAX, TEXT_MAX_CHARACTERS
from tiercel.nbfx.values import Value, text_of

XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
SERIALIZATION: Final = "http://schemas.microsoft.com/2003/10/Serialization/"
PREFIXES: Final[Mapping[str, str]] = {  # the prefixes that .NET uses
    "http://www.w3.org/2003/05/soap-envelope": "s",
    "http://schemas.xmlsoap.org/soap/envelope/": "s",
    "http://www.w3.org/2005/08/addressing": "a",
    "http://schemas.xmlsoap.org/ws/2004/08/addressing": "a",
    XSI: "i",
    "http://www.w3.org/2001/XMLSchema": "x",
    SERIALIZATION: "z",
    XML: "xml",
}


@dataclass(slots=True)
class Document:
    """A document as elements."""

    root: Element
    values: dict[Element, Value] = field(
        default_factory=dict
    )  # of elements whose text was not written as text
    scopes: dict[Element, Mapping[str, str]] = field(
        default_factory=dict
    )  # of elements that declare prefixes


_tags: dict[tuple[str, str], str] = {}  # "{namespace}name": envelopes use the same few again and again
_TAGS_KEPT: Final = 4_096


def _tag(namespace: str, name: str) -> str:
    if not namespace:
        return str(name)
    tag = f"{{{namespace}}}{name}"
    if len(_tags) < _TAGS_KEPT and len(tag) < 256:
        _tags[namespace, name] = tag
    return tag


def to_elements(events: Iterable[Event]) -> Document:
    """The document of the events; comments are left out."""
    document: Document | None = None
    stack: list[Element] = []
    scopes: list[Mapping[str, str]] = [{"": "", "xml": XML}]
    parent: Element | None = None
    last: Element | None = None  # the child that ended last: text goes to its tail
    size = 0
    for event in without_arrays(events):
        kind = event[0]
        if kind == "start":
            _, _, name, namespace, attributes = event  # type: ignore[misc]
            element = Element(_tags.get((namespace, name)) or _tag(namespace, name))
            if parent is not None:
                parent.append(element)
            elif document is None:
                document = Document(element)
            stack.append(element)
            assert document is not None
            scopes.append(
                _set_attributes(document, element, attributes, scopes[-1]) if attributes else scopes[-1]
            )
            parent, last = element, None
        elif kind == "text":
            value = event[1]
            assert parent is not None
            if type(value) is str:
                text = value
            else:
                assert document is not None
                text = text_of(value)
                if last is None:
                    _note_value(document, parent, value)
            size += len(text)
            if size > TEXT_MAX_CHARACTERS:
                problem = f"the document has more than {TEXT_MAX_CHARACTERS} characters of text"
                raise DecodeError("XML", "document", 0, problem)
            if last is not None:
                last.tail = text if last.tail is None else last.tail + text
            else:
                parent.text = text if parent.text is None else parent.text + text
        elif kind == "end":
            last = stack.pop()
            scopes.pop()
            parent = stack[-1] if stack else None
    assert document is not None  # the readers refuse documents without a root
    return document


def _set_attributes(
    document: Document, element: Element, attributes: Iterable[Attribute], scope: Mapping[str, str]
) -> Mapping[str, str]:
    declared = {}
    for prefix, name, namespace, value in attributes:
        if namespace == XMLNS:
            declared[name if prefix else ""] = str(value)
        else:
            element.set(_tag(namespace, name), text_of(value))
    if declared:
        scope = document.scopes[element] = {**scope, **declared}
    return scope


def _note_value(document: Document, element: Element, value: Value) -> None:
    """A value that is split over records is one value only if it is bytes."""
    if element.text is None:
        document.values[element] = value
        return
    before = document.values.pop(element, None)
    if isinstance(before, bytes) and isinstance(value, bytes):
        document.values[element] = before + value


def from_elements(
    root: Element, *, scope: Mapping[str, str] | None = None, intern: bool = False
) -> Iterator[Event]:
    """The events of an element and everything in it.

    Prefixes are made up: those of .NET for well-known namespaces, else the default namespace. `scope` holds
    the prefixes that are declared around the element. With `intern` names are written as numbers where a
    dictionary has them. A QName as text or as the value of an attribute gets a prefix that is declared.
    """
    name_of = DictionaryString if intern else str
    return _events(root, dict(scope or {"": ""}), name_of, 1)


def _events(element: Element, scope: dict[str, str], name_of: type[str], depth: int) -> Iterator[Event]:
    if depth > DEPTH_MAX:
        raise ValueError(f"elements are nested deeper than {DEPTH_MAX} levels")
    maker = _Prefixes(scope, name_of)
    namespace, name = split_tag(element.tag)
    prefix = maker.of_element(namespace)
    attributes = [(*maker.of_attribute(key), maker.value(value)) for key, value in element.attrib.items()]
    text = maker.value(element.text)
    declared = tuple(declaration(*each) for each in maker.declared.items())
    named: tuple[Attribute, ...] = tuple((p, name_of(n), name_of(ns), v) for p, n, ns, v in attributes)
    yield ("start", prefix, name_of(name), name_of(namespace), (*declared, *named))
    if text:
        yield ("text", text)
    for child in element:
        if child.tag is Comment:  # type: ignore[comparison-overlap]  # that is how ElementTree marks them
            yield ("comment", child.text or "")
        elif child.tag is not ProcessingInstruction:  # type: ignore[comparison-overlap]
            yield from _events(child, dict(maker.scope), name_of, depth + 1)
        if child.tail:
            yield ("text", child.tail)
    yield END


class _Prefixes:
    """The prefixes of one element."""

    def __init__(self, scope: dict[str, str], name_of: type[str]) -> None:
        self.scope = scope
        self.declared: dict[str, str] = {}
        self._name_of = name_of

    def of_element(self, namespace: str) -> str:
        if self.scope.get("") == namespace:
            return ""
        known = PREFIXES.get(namespace)
        if namespace and (known is not None or namespace in self.scope.values()):
            return self.of_name(namespace)
        self._declare("", namespace)
        return ""

    def of_attribute(self, key: str) -> tuple[str, str, str]:
        namespace, name = split_tag(key)
        return (self.of_name(namespace) if namespace else "", name, namespace)

    def of_name(self, namespace: str) -> str:
        """A prefix that is not the default one."""
        if namespace == XML:
            return "xml"
        for prefix, bound in self.scope.items():
            if bound == namespace and prefix:
                return prefix
        prefix = PREFIXES.get(namespace, "")
        if not prefix or prefix in self.scope:
            prefix = next(each for n in range(len(self.scope) + 1) if (each := f"p{n}") not in self.scope)
        self._declare(prefix, namespace)
        return prefix

    def _declare(self, prefix: str, namespace: str) -> None:
        self.scope[prefix] = namespace
        self.declared[prefix] = self._name_of(namespace)

    def value(self, value: object) -> str:
        if value is None:
            return ""
        if isinstance(value, QName):
            namespace, name = split_tag(value.text)
            return f"{self.of_name(namespace)}:{name}" if namespace else name
        return str(value)


def split_tag(tag: str) -> tuple[str, str]:
    """Namespace and name of "{namespace}name"."""
    if tag[:1] == "{":
        namespace, _, name = tag[1:].rpartition("}")
        return namespace, name
    return "", tag
