"""The address of a client behind reverse proxies: `X-Forwarded-For`, believed if a trusted proxy sent it."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from tiercel.srmp.http_request import RequestHead

_FORWARDED_FOR = "x-forwarded-for"


def client_address(head: RequestHead, address: str, trusted_proxies: tuple[str, ...]) -> str:
    """The last address that is not a trusted proxy's: everything before it is what the client says."""
    if not trusted_proxies or not _is_in(address, trusted_proxies):
        return address
    values = [value for name, value in head.headers if name.casefold() == _FORWARDED_FOR]
    for each in reversed(",".join(values).split(",")):
        if not _is_in(each.strip(), trusted_proxies):
            return each.strip() if _is_address(each.strip()) else address
    return address


@lru_cache(1024)
def _is_in(address: str, networks: tuple[str, ...]) -> bool:
    if not _is_address(address):
        return False
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in ip_network(each, strict=False) for each in networks)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
