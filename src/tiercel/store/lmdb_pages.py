"""Verifying the pages of an LMDB file that no process is writing."""

import re
from pathlib import Path

import lmdb.verify


def problems(data_file: Path) -> list[str]:
    """One sentence per damage; none if the file is sound."""
    try:
        found: list[str] = lmdb.verify.verify(str(data_file))  # type: ignore[no-untyped-call]
    except lmdb.verify.VerifyError as error:
        return [str(error)]
    return _without_spare_pages(found)


_SPARE = re.compile(r".* DB: overflow page \d+ header mp_pages (\d+) != OVPAGES\(\d+\)=(\d+)")
_COUNTED = re.compile(r".* DB: walked (\d+) overflow pages, record says (\d+)")
_LEAKED = re.compile(r"(\d+) page\(s\) are neither reachable nor in the freeDB .*")


def _without_spare_pages(found: list[str]) -> list[str]:
    """Drop one harmless finding: a record that became shorter in the batch that wrote it keeps its pages.

    LMDB saves work that way; the pages become free with the record.
    """
    spare = counted = leaked = 0
    for each in found:
        if match := _SPARE.fullmatch(each):
            spare += int(match[1]) - int(match[2])
        elif match := _COUNTED.fullmatch(each):
            counted += int(match[2]) - int(match[1])
        elif match := _LEAKED.fullmatch(each):
            leaked += int(match[1])
        else:
            return found
    return [] if spare == counted == leaked else found
