"""The fixtures of the pytest plugin, used as a user's test suite uses them."""

import pytest

pytest_plugins = ["pytester"]

SUITE = r"""
import tiercel

QUEUE = r".\private$\orders"
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest('pytest_plugins = ["tiercel.testing"]')
    return pytester


def test_gives_every_test_an_empty_queue_manager(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        SUITE
        + r"""
def test_one(queue_manager):
    queue = queue_manager.create_queue(QUEUE, label="one")
    queue.send(b"order")
    assert queue.receive(timeout=0).body == b"order"

def test_two(queue_manager):
    assert isinstance(queue_manager, tiercel.EmbeddedQueueManager)
    assert queue_manager.queues() == [] == queue_manager.discards()
    queue_manager.create_queue(QUEUE)
"""
    )
    suite.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_is_the_same_for_all_fixtures_of_a_test(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        SUITE
        + r"""
import pytest

@pytest.fixture
def orders(queue_manager):
    return queue_manager.create_queue(QUEUE, transactional=True)

def test_it(queue_manager, orders):
    with queue_manager.transaction() as tx:
        orders.send(b"x", transaction=tx)
    assert queue_manager.queue(QUEUE).count == 1
"""
    )
    suite.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_is_closed_after_the_test_also_after_one_that_fails(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        SUITE
        + r"""
import pytest

kept = []

def test_fails(queue_manager):
    kept.append(queue_manager)
    queue_manager.create_queue(QUEUE).send(b"x")
    assert False

def test_may_close_it_itself(queue_manager):
    queue_manager.close()

def test_was_closed():
    with pytest.raises(tiercel.ServiceNotAvailableError):
        kept[0].queues()
"""
    )
    suite.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2, failed=1)


def test_has_the_same_name_on_every_computer(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        SUITE
        + r"""
def test_it(queue_manager):
    assert queue_manager.create_queue(QUEUE).path_name == r"TEST\private$\orders"
"""
    )
    suite.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_is_listed_with_its_docstring(pytester: pytest.Pytester) -> None:
    """Found by its entry point alone: pytest 9.2 cannot list fixtures that a conftest names once more."""
    listed = pytester.runpytest_inprocess("--fixtures", "-p", "no:cacheprovider")
    listed.stdout.fnmatch_lines(["queue_manager*", "*An empty queue manager, closed after the test*"])


def test_a_daemon_runs_for_one_test(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        SUITE
        + r"""
kept = []

def test_one(tiercel_daemon):
    kept.append(tiercel_daemon)
    with tiercel_daemon.connect() as qm:
        queue = qm.create_queue("orders")
        queue.send("tea")
        assert queue.receive(timeout=5).text == "tea"
    host, _, port = tiercel_daemon.address.rpartition(":")
    assert (host, port.isdigit()) == ("127.0.0.1", True)

def test_it_has_ended():
    assert kept[0].process.wait() == 0
"""
    )
    suite.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
