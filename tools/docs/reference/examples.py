"""The programs of examples/, as they are."""

import ast

from .tables import ROOT

HEAD = """# Examples

Programs to start from, as they lie in the folder `examples/` of the source. The tests run them all.

"""


def page() -> str:
    parts = [HEAD]
    for path in sorted((ROOT / "examples").iterdir()):
        text = path.read_text("utf-8") if path.is_file() else ""
        if path.suffix == ".py":
            summary = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
            parts.append(f"## {path.name}\n\n{summary}\n\n```python\n{text}```\n\n")
        elif path.suffix == ".toml":
            parts.append(f"## {path.name}\n\n```toml\n{text}```\n\n")
    return "".join(parts)
