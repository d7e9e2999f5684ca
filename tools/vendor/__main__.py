"""Copies the libraries of the console from npm: `python tools/vendor` (needs npm).

The files are as published, but for the names that they import each other by: an import
map would have to be inline, which the content policy forbids.
"""

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CONSOLE: Final = ROOT / "src" / "tiercel" / "console" / "vendor"
TESTS: Final = ROOT / "tests" / "console" / "vendor"
PACKAGES: Final = {  # folder, package, version, licence: files in the package and here
    (CONSOLE, "preact", "11.2.0", "MIT"): {
        "dist/preact.mjs": "preact.js",
        "hooks/dist/hooks.mjs": "hooks.js",
        "LICENSE": "preact.LICENSE",
    },
    (CONSOLE, "htm", "3.1.1", "Apache-2.0"): {"dist/htm.mjs": "htm.js", "LICENSE": "htm.LICENSE"},
    (TESTS, "axe-core", "4.14.0", "MPL-2.0"): {"axe.min.js": "axe.js", "LICENSE": "axe.LICENSE"},
}
HEAD: Final = (
    "# Vendored libraries",
    "",
    "Made by `python tools/vendor`.",
    "",
    "| file | package | licence | SHA-256 |",
    "| --- | --- | --- | --- |",
)
REPLACED: Final = {b'from"preact"': b'from"./preact.js"'}


def _packed(package: str, version: str, folder: str) -> tarfile.TarFile:
    npm = shutil.which("npm") or "npm"
    made = subprocess.run(  # noqa: S603  # fixed names
        [npm, "pack", "--silent", f"{package}@{version}"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    file = Path(folder) / made.stdout.split()[-1]
    return tarfile.open(fileobj=io.BytesIO(file.read_bytes()))


def main() -> None:
    lines: dict[Path, list[str]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for (folder, package, version, licence), files in PACKAGES.items():
            folder.mkdir(exist_ok=True)
            archive = _packed(package, version, temporary)
            for source, name in files.items():
                content = _content(archive, source)
                (folder / name).write_bytes(content)
                if name.endswith(".js"):
                    digest = hashlib.sha256(content).hexdigest()
                    line = f"| {name} | {package} {version} | {licence} | `{digest}` |"
                    lines.setdefault(folder, list(HEAD)).append(line)
    for folder, text in lines.items():
        (folder / "README.md").write_text("\n".join(text) + "\n", "utf-8")


def _content(archive: tarfile.TarFile, source: str) -> bytes:
    member = archive.extractfile(f"package/{source}")
    assert member is not None
    lines = member.read().split(b"\n")
    content = b"\n".join(line for line in lines if not line.startswith(b"//# sourceMappingURL"))
    for old, new in REPLACED.items():
        content = content.replace(old, new)
    return content


if __name__ == "__main__":
    main()
