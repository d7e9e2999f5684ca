"""Sizes as text."""


def size_text(count: float) -> str:
    """`0 bytes`, `312 bytes`, `4.2 KiB`, `17 MiB`: as many digits as are needed to compare two of them."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"
