"""What mkdocs has to do for this site: make the pages of the reference, and take in files from outside docs/.

Links in docs/ lead to files of the repository, so that they work where the pages are read as they are; here
they are bent to the pages that stand for those files on the site.
"""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from reference import PAGES  # noqa: E402  # it lies beside this file

TAKEN_IN = {"contributing.md": ROOT / "CONTRIBUTING.md"} | {
    f"conformance/{path.name}": path for path in sorted((ROOT / "conformance").glob("*.md"))
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in PAGES.items():
        files.append(File.generated(config, name, content=page()))
    for name, path in TAKEN_IN.items():
        files.append(File.generated(config, name, content=path.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    up = "../" * page.file.src_uri.count("/")
    if page.file.src_uri == "contributing.md":
        markdown = re.sub(r"\]\(docs/", "](", markdown)
    for pattern, target in (
        (r"\]\((?:\.\./)+CONTRIBUTING\.md", f"]({up}contributing.md"),
        (r"\]\((?:\.\./)+conformance/?\)", f"]({up}reference/conformance.md)"),
        (r"\]\((?:\.\./)+examples/?([^)]*)\)", rf"]({up}examples.md)"),
        (r"\]\((?:\.\./)+README\.md", f"]({up}start.md"),
    ):
        markdown = re.sub(pattern, target, markdown)
    return markdown
