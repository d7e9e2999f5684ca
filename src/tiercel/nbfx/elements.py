"""Events to the elements of xml.etree.ElementTree and back.

An element's text is what XML text would have there. What elements cannot carry stands beside them in a
`Document`: the typed values, and the prefixes in scope, which text such as `xsi:type="b:Order"` refers to.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from xml.etree.ElementTree import Comment, Element, QName, TreeBuilder

from tiercel.model.errors import DecodeError
from tiercel.nbfx.dictionary import DictionaryString
from tiercel.nbfx.events import END, XML, XMLNS, Array, Attribute, Event, Start, declaration
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


class Scope(Mapping[str, str]):
    """The prefixes in scope at an element: what it declares, before what the elements around it declare.

    A copy of them for each element would let a small document take gigabytes.
    """

    __slots__ = ("around", "own")

    def __init__(self, own: Mapping[str, str], around: "Scope | None" = None) -> None:
        self.own = own
        self.around = around

    def __getitem__(self, prefix: str) -> str:
        scope: Scope | None = self
        while scope is not None:
            found = scope.own.get(prefix)
            if found is not None:
                return found
            scope = scope.around
        raise KeyError(prefix)

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self.around or ()), **dict.fromkeys(self.own)})

    def __len__(self) -> int:
        return sum(1 for _ in self)


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
    types: dict[Element, str] = field(default_factory=dict)  # "{namespace}name" of xsi:type
    # Elements with z:Ref, and the last element before them with that z:Id: a serializer that runs again, for
    # another parameter of an operation, begins with the same ids.
    references: dict[Element, Element | None] = field(default_factory=dict)
    identified: dict[str, Element] = field(default_factory=dict)  # the last one with each z:Id
    referred: set[Element] = field(default_factory=set)  # to which others refer
    built: dict[tuple[Element, Any], Any] = field(default_factory=dict)  # what readers made of elements


_tags: dict[tuple[str, str], str] = {}  # "{namespace}name": envelopes use the same few again and again
_TAGS_KEPT: Final = 4_096
_NO_ATTRIBUTES: Final[dict[Any, Any]] = {}  # those that there are come later


def _tag(namespace: str, name: str) -> str:
    if not namespace:
        return str(name)
    tag = f"{{{namespace}}}{name}"
    if len(_tags) < _TAGS_KEPT and len(tag) < 256:
        _tags[namespace, name] = tag
    return tag


def _too_long() -> DecodeError:
    problem = f"the document has more than {TEXT_MAX_CHARACTERS} characters of text"
    return DecodeError("XML", "document", 0, problem)


class _Budget:
    """For the tags and attributes of one document, whose strings may stand for much longer ones."""

    def __init__(self) -> None:
        self._left = TEXT_MAX_CHARACTERS
        self._tags: dict[tuple[str, str], str] = {}  # those that `_tags` does not keep

    def spend(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise _too_long()
        return text

    def tag(self, namespace: str, name: str) -> str:
        """The tag of a name that `_tags` does not have."""
        tag = self._tags.get((namespace, name))
        if tag is None:
            tag = self._tags[namespace, name] = self.spend(_tag(namespace, name))
        return tag


def to_elements(events: Iterable[Event]) -> Document:
    """The document of the events; comments are left out."""
    builder = TreeBuilder()
    start, data, end = builder.start, builder.data, builder.end
    document = Document(Element(""))
    element = document.root  # the one that began last
    texts = -1  # how many texts stand in it so far; -1: it is no longer open, or has children
    scope = Scope({"": "", "xml": XML})
    scopes: list[tuple[Element, Scope]] = []  # elements that declare, and the scope around them
    size, budget, tags, values = 0, _Budget(), _tags, document.values
    for event in list(events):  # reading first and building then is faster than by turns
        kind = event[0]
        if kind == "start":
            _, _, name, namespace, attributes = event  # type: ignore[misc]
            element = start(tags.get((namespace, name)) or budget.tag(namespace, name), _NO_ATTRIBUTES)
            texts = 0
            if attributes:
                inner = _set_attributes(document, element, attributes, scope, budget)
                if inner is not scope:
                    scopes.append((element, scope))
                    scope = inner
        elif kind == "text":
            value = event[1]
            text = value if type(value) is str else text_of(value)
            size += len(text)
            if size > TEXT_MAX_CHARACTERS:
                raise _too_long()
            if texts == 0:
                texts = 1
                if type(value) is not str:
                    values[element] = value
            elif texts > 0:
                _join(values, element, value)
            data(text)
        elif kind == "end":
            texts = -1
            ended = end("")  # which element that is, the builder knows
            if scopes and scopes[-1][0] is ended:
                scope = scopes.pop()[1]
        elif kind == "array":
            texts = -1
            _append_array(document, builder, event, scope, budget)  # type: ignore[arg-type]
    document.root = builder.close()
    return document


def _append_array(
    document: Document, builder: TreeBuilder, event: Array, scope: Scope, budget: _Budget
) -> None:
    """An element for each value of an array."""
    _, _, name, namespace, attributes, _, values = event
    tag = budget.tag(namespace, name)
    for value in values:
        element = builder.start(tag, _NO_ATTRIBUTES)
        _set_attributes(document, element, attributes, scope, budget)
        document.values[element] = value
        builder.data(text_of(value))
        builder.end("")


def _set_attributes(
    document: Document, element: Element, attributes: Iterable[Attribute], scope: Scope, budget: _Budget
) -> Scope:
    declared, type_name = {}, ""
    for prefix, name, namespace, value in attributes:
        if namespace == XMLNS:
            assert isinstance(value, str)
            declared[name if prefix else ""] = value
        else:
            text = value if isinstance(value, str) else budget.spend(text_of(value))  # a str is not copied
            element.set(_tags.get((namespace, name)) or budget.tag(namespace, name), text)
            if name == "type" and namespace == XSI:
                type_name = text
            elif namespace == SERIALIZATION and name == "Id":
                document.identified[text] = element
            elif namespace == SERIALIZATION and name == "Ref":
                target = document.references[element] = document.identified.get(text)
                if target is not None:
                    document.referred.add(target)
    if declared:
        scope = document.scopes[element] = Scope(declared, scope)
    if type_name:
        prefix, _, name = type_name.strip().rpartition(":")
        document.types[element] = budget.tag(scope.get(prefix, prefix), name)
    return scope


def _join(values: dict[Element, Value], element: Element, value: Value) -> None:
    """A value that is split over records is one value only if it is bytes."""
    before = values.pop(element, None)
    if isinstance(before, bytes) and isinstance(value, bytes):
        values[element] = before + value


def from_elements(
    root: Element, *, scope: Mapping[str, str] | None = None, intern: bool = False
) -> Iterator[Event]:
    """The events of an element and everything in it.

    Prefixes are made up: those of .NET for well-known namespaces, else the default namespace. `scope` holds
    the prefixes that are declared around the element. With `intern` names are written as numbers where a
    dictionary has them. A QName as text or as the value of an attribute gets a prefix that is declared.
    """
    name_of = DictionaryString if intern else str
    events: list[Event] = []
    _Writer(events, name_of).write(root, _Scope(dict(scope or {"": ""})), 1)
    return iter(events)


class _Scope:
    """The prefixes around an element, and the start events of its children."""

    def __init__(self, bound: dict[str, str]) -> None:
        self.bound = bound
        self.prefixes: dict[str, str] = {}  # of elements, as they were chosen so far
        self.starts: dict[str, Start] = {}  # of elements without attributes, by their tags


class _Writer:
    def __init__(self, events: list[Event], name_of: type[str]) -> None:
        self._events = events
        self._name_of = name_of

    def write(self, element: Element, scope: _Scope, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ValueError(f"elements are nested deeper than {DEPTH_MAX} levels")
        events, text = self._events, element.text
        start = scope.starts.get(element.tag)
        if start is not None and not element.attrib and (text is None or type(text) is str):
            events.append(start)
        else:
            text, scope = self._start(element, scope)
        if text:
            events.append(("text", text))
        for child in element:
            if type(child.tag) is str:
                self.write(child, scope, depth + 1)
            elif child.tag is Comment:  # type: ignore[comparison-overlap]  # as ElementTree marks them
                events.append(("comment", child.text or ""))
            if child.tail:
                events.append(("text", child.tail))
        events.append(END)

    def _start(self, element: Element, scope: _Scope) -> tuple[str, _Scope]:
        """An element that is new here, or with attributes, or with a qualified name as text."""
        namespace, name = _names.get(element.tag) or _split(element.tag)
        if self._name_of is not str:
            namespace, name = self._name_of(namespace), self._name_of(name)
        prefix = scope.prefixes.get(namespace)
        if prefix is None or element.attrib or isinstance(element.text, QName):
            return self._start_with_attributes(element, namespace, name, scope)
        start = scope.starts[element.tag] = ("start", prefix, name, namespace, ())
        self._events.append(start)
        return str(element.text or ""), scope

    def _start_with_attributes(
        self, element: Element, namespace: str, name: str, scope: _Scope
    ) -> tuple[str, _Scope]:
        maker, name_of = _Prefixes(dict(scope.bound), self._name_of), self._name_of
        prefix = maker.of_element(namespace)
        attributes = [(*maker.of_attribute(key), maker.value(value)) for key, value in element.attrib.items()]
        text = maker.value(element.text)
        declared = tuple(declaration(*each) for each in maker.declared.items())
        named: tuple[Attribute, ...] = tuple((p, name_of(n), name_of(ns), v) for p, n, ns, v in attributes)
        self._events.append(("start", prefix, name, namespace, (*declared, *named)))
        if declared:
            scope = _Scope(maker.scope)
        scope.prefixes[namespace] = prefix
        return text, scope


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


_names: dict[str, tuple[str, str]] = {}  # of tags that were written: the same few again and again


def _split(tag: str) -> tuple[str, str]:
    found = split_tag(tag)
    if len(_names) < _TAGS_KEPT and len(tag) < 256:
        _names[tag] = found
    return found


def split_tag(tag: str) -> tuple[str, str]:
    """Namespace and name of "{namespace}name"."""
    if tag[:1] == "{":
        namespace, _, name = tag[1:].rpartition("}")
        return namespace, name
    return "", tag
