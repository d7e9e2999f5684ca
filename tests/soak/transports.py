"""The transports of a soak: the port that is cut, the name of the queue, and the settings of both daemons."""

from enum import Enum
from pathlib import Path
from uuid import UUID

from certificates import Authority

from .links import Site


class Transport(Enum):
    BINARY = "binary"
    TLS = "tls"
    HTTP = "http"
    HTTPS = "https"

    @property
    def port(self) -> int:
        return _PORTS[self]

    @property
    def has_certificates(self) -> bool:
        return self in {Transport.TLS, Transport.HTTPS}

    def destination(self, receiver: Site) -> str:
        """The name by which the sender reaches the queue."""
        if self in {Transport.BINARY, Transport.TLS}:
            return rf"DIRECT=TCP:{receiver.address}\private$\orders"
        return f"DIRECT={self.name}://{receiver.reached_at}:{self.port}/msmq/private$/orders"

    def settings(self, site: Site, folder: Path, authority: Authority | None) -> str:
        """As in every day, but without the long waits before the next try."""
        if self is Transport.HTTP or self is Transport.HTTPS:
            return _binary(site) + _srmp(self, site, folder, authority)
        return _binary(site)


_PORTS = {Transport.BINARY: 1801, Transport.TLS: 1812, Transport.HTTP: 8080, Transport.HTTPS: 8443}


def tls_settings(site: Site, guid: UUID, other: Site, other_guid: UUID, authority: Authority) -> str:
    """Both sides have certificates, and neither accepts the other without."""
    issued = authority.issue(guid, name=f"{guid}")
    return f"""
[tls]
listen = "{site.address}:{Transport.TLS.port}"
tls_certificate = "{issued.certificate}"
tls_key = "{issued.key}"
tls_ca = "{authority.file}"
[[peers]]
name = "other"
guid = "{other_guid}"
addresses = ["{other.address}"]
tls = "{other.reached_at}:{Transport.TLS.port}"
"""


def _binary(site: Site) -> str:
    port = Transport.BINARY.port
    return f"""
[listen]
host = "{site.address}"
port = {port}
[binary]
port = {port}
retry_ms = 50
retry_max_ms = 500
resend_table_s = [3, 3, 3, 10]
[hosts]
{site.hosts}
[log]
level = "debug"
"""


def _srmp(transport: Transport, site: Site, folder: Path, authority: Authority | None) -> str:
    text = f"""
[srmp]
enabled = true
host = "{site.address}"
port = {Transport.HTTP.port}
https_port = {Transport.HTTPS.port}
{transport.value}_url = "{transport.value}://{site.reached_at}:{transport.port}"
retry_ms = 200
answer_s = 5
resend_table_s = [3, 3, 3, 10]
"""
    if authority is None:
        return text
    issued = authority.issue(site.reached_at, name=f"{folder.name}-{site.address}")
    return f"""{text}
http = false
tls_certificate = "{issued.certificate}"
tls_key = "{issued.key}"
ca = "{authority.file}"
"""
