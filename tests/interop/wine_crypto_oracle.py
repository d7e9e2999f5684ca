"""Windows CryptoAPI, as Wine implements it, in a process that answers lines: see wine_crypto/README.md."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

KIT = Path(__file__).parent / "wine_crypto"
NOT_INSTALLABLE = 3


class CryptoApi:
    """The program and its Wine prefix are made beside it, so it works in a copy of the kit."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(KIT, folder, dirs_exist_ok=True)
        program, source = folder / "capi.exe", KIT / "capi.c"
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            made = subprocess.run([folder / "install.sh"], capture_output=True, text=True, check=False)  # noqa: S603
            if made.returncode == NOT_INSTALLABLE:
                raise FileNotFoundError(made.stdout.strip())
            made.check_returncode()
        self._process = subprocess.Popen(  # noqa: S603
            [folder / "oracle.sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.answers = 0
        self._keys: dict[tuple[str, str, int], bytes] = {}

    def ask(self, *words: str | bytes) -> dict[str, Any]:
        """The answer to a command; bytes are sent in hexadecimal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        texts = (word.hex() or "-" if isinstance(word, bytes) else word for word in words)
        self._process.stdin.write(" ".join(texts) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        self.answers += 1
        return answer

    def octets(self, field: str, *words: str | bytes) -> bytes:
        answer = self.ask(*words)
        assert answer["ok"], answer
        return bytes.fromhex(answer[field])

    def key(self, provider: str, purpose: str, bits: int) -> bytes:
        """The PRIVATEKEYBLOB of a key that it makes; the same one each time, because that takes long."""
        wanted = provider, purpose, bits
        if wanted not in self._keys:
            self._keys[wanted] = self.octets("private", "genkey", provider, purpose, str(bits))
        return self._keys[wanted]

    def close(self) -> None:
        self._process.communicate()
