import pytest

from tiercel.message_security.aging_cache import (
    CERTIFICATE_LIFETIME_S,
    KEY_LIFETIME_S,
    RECEIVED_KEYS,
    SEND_KEYS,
    USER_CERTIFICATES,
    AgingCache,
)


def filled(capacity: int, lifetime_s: float) -> AgingCache[int, int]:
    cache: AgingCache[int, int] = AgingCache(capacity, lifetime_s)
    for i in range(capacity):
        cache.put(i, i, float(i))
    return cache


@pytest.mark.parametrize(
    ("capacity", "lifetime_s", "left"),
    [
        pytest.param(
            USER_CERTIFICATES, CERTIFICATE_LIFETIME_S, 28, marks=pytest.mark.conformance("MQQB-204")
        ),
        pytest.param(RECEIVED_KEYS, KEY_LIFETIME_S, 65, marks=pytest.mark.conformance("MQQB-208")),
        pytest.param(SEND_KEYS, KEY_LIFETIME_S, 28, marks=pytest.mark.conformance("MQQB-218")),
    ],
)
def test_a_full_cache_drops_its_older_half(capacity: int, lifetime_s: float, left: int) -> None:
    cache = filled(capacity, lifetime_s)
    assert len(cache) == capacity
    cache.put(capacity, capacity, float(capacity))
    assert len(cache) == left
    assert cache.get(capacity, capacity + 1) == capacity
    assert cache.get(0, capacity + 1) is None
    assert cache.get(capacity - 1, capacity + 1) == capacity - 1


@pytest.mark.parametrize(
    ("lifetime_s", "gone_by"),
    [
        pytest.param(CERTIFICATE_LIFETIME_S, 21 * 60, marks=pytest.mark.conformance("MQQB-204")),
        pytest.param(KEY_LIFETIME_S, 11 * 60),
    ],
)
def test_the_cleanup_timer(lifetime_s: float, gone_by: float) -> None:
    """[MS-MQQB] 3.1.6.10: re-armed to lifetime + 60 s - age of the oldest."""
    cache: AgingCache[str, int] = AgingCache(10, lifetime_s)
    assert cache.next_deadline is None
    cache.put("old", 1, 0.0)
    cache.put("new", 2, 30.0)
    assert cache.next_deadline == lifetime_s
    cache.expire(lifetime_s - 1)
    assert len(cache) == 2
    cache.expire(lifetime_s)
    assert len(cache) == 1
    assert cache.next_deadline == lifetime_s + lifetime_s + 60 - (lifetime_s - 30)
    cache.expire(gone_by + 30)
    assert len(cache) == 0
    assert cache.next_deadline is None


def test_what_is_too_old_is_not_used_before_the_cleanup_either() -> None:
    cache: AgingCache[str, int] = AgingCache(10, 600)
    cache.put("key", 1, 0.0)
    assert cache.get("key", 599) == 1
    assert cache.get("key", 600) is None
    assert cache.get("key", -1) is None  # the clock was set back


def test_a_new_value_is_young_again() -> None:
    cache = filled(4, 600)
    cache.put(0, 9, 5.0)
    assert len(cache) == 4
    cache.put(7, 7, 6.0)  # drops 1 and 2
    assert cache.get(0, 7) == 9
    cache.clear()
    assert len(cache) == 0
    assert cache.next_deadline is None
