"""Starts .NET's XML readers and writers (Mono) as a process that answers lines: see dotnet_xml/README.md."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

KIT = Path(__file__).parent / "dotnet_xml"
NOT_INSTALLABLE = 3


class Oracle:
    """The programs write beside themselves, so they work in a copy of the kit."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(KIT, folder, dirs_exist_ok=True)
        program = folder / "oracle.exe"
        changed = max(source.stat().st_mtime for source in KIT.glob("*.cs"))
        if not program.exists() or program.stat().st_mtime < changed:
            made = subprocess.run([folder / "install.sh"], capture_output=True, text=True, check=False)  # noqa: S603
            if made.returncode == NOT_INSTALLABLE:
                raise FileNotFoundError(made.stdout.strip())
            made.check_returncode()
        self._process = subprocess.Popen(  # noqa: S603
            [folder / "oracle.sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *words: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def decode(self, form: str, *documents: bytes) -> list[str]:
        """The documents as XML text; several of them share a session."""
        answer = self.ask("decode", form, *(document.hex() or "-" for document in documents))
        assert answer["ok"], answer["error"]
        return [each["xml"] for each in answer.get("documents", [answer])]

    def encode(self, form: str, *texts: str) -> list[bytes]:
        answer = self.ask("encode", form, *(base64.b64encode(text.encode()).decode() for text in texts))
        assert answer["ok"], answer["error"]
        hexes = answer["hex"] if isinstance(answer["hex"], list) else [answer["hex"]]
        return [bytes.fromhex(each) for each in hexes]

    def close(self) -> None:
        self._process.communicate()
