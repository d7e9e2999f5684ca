"""SIGHUP reads the certificates again: new connections see the new ones, open connections go on."""

import http.client
import shutil
import signal
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509

from api.asked import Asked, asked
from certificates import Authority, Issued
from data.served import PATIENCE_S

HOST = "127.0.0.1"
FACES = ("api", "data", "srmp")
PATHS = {"api": "/api/v1/health", "data": "/data/v1/queues", "srmp": "/msmq/"}


class Scene:
    """A daemon whose listeners have one certificate, and the client of all."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.used = Issued(folder / "used.crt", folder / "used.key")
        self.install("first")
        self._context = ssl.create_default_context(cafile=str(self.authority.file))

    def install(self, name: str) -> None:
        issued = self.authority.issue(HOST, name=name)
        shutil.copy(issued.certificate, self.used.certificate)
        shutil.copy(issued.key, self.used.key)

    @property
    def options(self) -> str:
        files = f'tls_certificate = "{self.used.certificate}"\ntls_key = "{self.used.key}"\n'
        return (
            f"[api]\nenabled = true\nport = 0\n{files}[data]\nenabled = true\nport = 0\n{files}"
            f"[srmp]\nenabled = true\nhttp = false\nhttps_port = 0\n{files}"
        )

    def connect(self, served: Asked, face: str) -> http.client.HTTPSConnection:
        start = served.start
        urls = {"api": start["api"], "data": start["data_endpoint"]}
        place = urlsplit(urls.get(face) or f"https://{start['address'].split(',')[-1]}")
        return http.client.HTTPSConnection(place.hostname or "", place.port, context=self._context)


def seen(connection: http.client.HTTPSConnection, face: str) -> str:
    """The name in the certificate of the server, after a request that it answers."""
    connection.request("GET", PATHS[face])
    connection.getresponse().read()
    data = connection.sock.getpeercert(binary_form=True)
    assert data is not None
    return x509.load_der_x509_certificate(data).subject.rfc4514_string().removeprefix("CN=")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Asked]]:
    folder = tmp_path_factory.mktemp("certificates")
    scene = Scene(folder)
    with asked(folder, scene.options) as served:
        yield scene, served


def renewed(served: Asked, scene: Scene, face: str, expected: str) -> None:
    """Waits for it: the data process reads the files by itself."""
    until, name = time.monotonic() + PATIENCE_S, ""
    while name != expected and time.monotonic() < until:
        with closing(scene.connect(served, face)) as connection:
            name = seen(connection, face)
    assert name == expected


def test_new_connections_see_the_new_certificate_and_open_ones_go_on(scene: tuple[Scene, Asked]) -> None:
    files, served = scene
    with (
        closing(files.connect(served, "api")) as api,
        closing(files.connect(served, "data")) as data,
        closing(files.connect(served, "srmp")) as srmp,
    ):
        before = dict(zip(FACES, (api, data, srmp), strict=True))
        assert [seen(connection, face) for face, connection in before.items()] == ["first"] * 3
        sockets = [connection.sock for connection in before.values()]

        files.install("second")
        served.process.send_signal(signal.SIGHUP)
        assert {served.event("certificates_reloaded", each)["section"] for each in range(3)} >= {
            "api",
            "srmp",
        }
        for face in FACES:
            renewed(served, files, face, "second")

        assert [seen(connection, face) for face, connection in before.items()] == ["first"] * 3
        assert [connection.sock for connection in before.values()] == sockets

    files.used.certificate.write_text("broken")
    served.process.send_signal(signal.SIGHUP)
    events = [served.event("reload_failed", each) for each in range(len(FACES))]
    assert all("used.crt" in event["reason"] for event in events)
    assert {event["kept"] for event in events} == {"the certificates as they were"}
    for face in FACES:
        with closing(files.connect(served, face)) as connection:
            assert seen(connection, face) == "second"
