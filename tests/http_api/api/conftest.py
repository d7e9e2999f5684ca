"""One daemon for all tests that leave nothing behind but queues of their own."""

from collections.abc import Iterator
from itertools import count

import pytest

from http_api.api.asked import Api, Asked, asked

_NUMBERS = count()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with asked(tmp_path_factory.mktemp("api"), "[api]\nenabled = true\nport = 0\n") as served:
        yield served


@pytest.fixture
def queue(served: Api) -> str:
    """A queue that nobody has touched."""
    name = f"q{next(_NUMBERS)}"
    served.create(name)
    return name
