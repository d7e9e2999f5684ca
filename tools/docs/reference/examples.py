"""The programs of examples/, as they are."""

import ast

from .tables import ROOT

HEAD = """# Examples

Programs to start from, as they lie in the folder `examples/` of the source. The tests run them all.

"""


def page() -> str:
    parts = [HEAD]
    programs = (each for each in (ROOT / "examples").rglob("*") if each.suffix in {".py", ".toml"})
    for path in sorted(programs):
        text, name = path.read_text("utf-8"), path.relative_to(ROOT / "examples")
        if path.suffix == ".py":
            summary = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
            parts.append(f"## {name}\n\n{summary}\n\n```python\n{text}```\n\n")
        elif path.suffix == ".toml":
            parts.append(f"## {name}\n\n```toml\n{text}```\n\n")
    return "".join(parts)
