"""Every path of the HTTP API, from its OpenAPI description."""

from typing import Any

from tiercel.api.app import description

from .tables import code, table

HEAD = """# HTTP API

Made from the same description that the daemon serves as `GET /api/v1/openapi.json`, with a page to try it
at `/api/v1/docs`. [Over HTTP](../http.md) shows how the requests are used.

"""


def page() -> str:
    api = description()
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    rows = [(code(name), _roles(each), _sentence(each)) for name, each in operations]
    parts = [HEAD, table(("request", "role", "what it does"), rows), "\n"]
    parts += [_operation(name, each, api) for name, each in operations]
    parts.append("## Bodies\n\n")
    for name, schema in sorted(api["components"]["schemas"].items()):
        if "properties" in schema:
            parts.append(f"### {name}\n\n{schema.get('description', '')}\n\n{_fields(schema)}\n")
    return "".join(parts)


def _operation(name: str, operation: dict[str, Any], api: dict[str, Any]) -> str:
    parts = [f"## {name}\n\n{operation.get('description', '')}\n\n"]
    rows = [
        (
            code(each["name"]),
            each["in"],
            _kind(each["schema"]),
            _default(each["schema"]),
            each.get("description", ""),
        )
        for each in operation.get("parameters", ())
    ]
    if rows:
        parts.append(table(("parameter", "in", "kind", "default", "meaning"), rows) + "\n")
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"Body, {code(media)}: {_kind(content.get('schema', {}))}\n\n")
        if (schema := _referred(content.get("schema", {}), api)) is not None:
            parts.append(_fields(schema) + "\n")
    answers = [
        (status, each["description"]) for status, each in operation["responses"].items() if status.isdigit()
    ]
    parts.append(table(("status", "answer"), answers) + "\n")
    return "".join(parts)


def _referred(schema: dict[str, Any], api: dict[str, Any]) -> dict[str, Any] | None:
    """The object that a body is, unless it is the message, which has many fields and a place of its own."""
    for each in (schema, *schema.get("anyOf", ())):
        name = each.get("$ref", "").rpartition("/")[2]
        if name and name != "Message":
            found: dict[str, Any] = api["components"]["schemas"][name]
            return found if "properties" in found else None
    return None


def _fields(schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (
            code(name),
            _kind(each),
            "" if name not in required else "yes",
            _default(each),
            each.get("description", ""),
        )
        for name, each in schema["properties"].items()
    ]
    return table(("field", "kind", "needed", "default", "meaning"), rows)


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if name != "Message" else "a message"
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"] if each.get("type") != "null")
    if "enum" in schema:
        return " ".join(map(code, schema["enum"]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    bounds = f" {lowest if lowest is not None else ''}..{highest if highest is not None else ''}"
    return f"{kind}{bounds if (lowest, highest) != (None, None) else ''}"


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    return "" if value is None else code(str(value).lower() if isinstance(value, bool) else value)


def _roles(operation: dict[str, Any]) -> str:
    return " and ".join(map(code, operation.get("x-roles") or ["none"]))


def _sentence(operation: dict[str, Any]) -> str:
    words = operation.get("description") or operation.get("summary") or ""
    return str(words).replace("\n", " ").partition(". ")[0].rstrip(".")
