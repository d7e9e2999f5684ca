"""One daemon for the tests of a file, which leave nothing behind but queues of their own."""

from collections.abc import Iterator
from itertools import count

import pytest

from api.asked import Api, Asked, asked

_NUMBERS = count()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with asked(tmp_path_factory.mktemp("api"), "[api]\nenabled = true\nport = 0\n") as served:
        yield served


@pytest.fixture
def queue(served: Api) -> str:
    """A queue that nobody has touched."""
    name = f"q{next(_NUMBERS)}"
    served.create(name)
    return name
