from tiercel.sim.schedule import Schedule


def test_events_happen_in_the_order_of_their_times() -> None:
    schedule, seen = Schedule(), list[tuple[float, str]]()
    for time, name in ((3.0, "c"), (1.0, "a"), (2.0, "b")):
        schedule.at(time, lambda name=name: seen.append((schedule.now, name)))  # type: ignore[misc]
    schedule.run_until(2.5)
    assert seen == [(1.0, "a"), (2.0, "b")]
    assert schedule.now == 2.5


def test_events_of_one_moment_happen_as_they_were_planned() -> None:
    schedule, seen = Schedule(), list[str]()
    schedule.at(1.0, lambda: seen.append("first"))
    schedule.at(1.0, lambda: seen.append("second"))
    schedule.run_until(1.0)
    assert seen == ["first", "second"]


def test_a_cancelled_event_does_not_happen() -> None:
    schedule, seen = Schedule(), list[str]()
    schedule.at(1.0, lambda: seen.append("never")).cancel()
    schedule.run_until(2.0)
    assert not seen


def test_time_does_not_go_back() -> None:
    schedule, seen = Schedule(), list[float]()
    schedule.run_until(5.0)
    schedule.at(1.0, lambda: seen.append(schedule.now))
    schedule.run_until(6.0)
    assert seen == [5.0]


def test_a_run_ends_when_it_is_done() -> None:
    schedule, seen = Schedule(), list[str]()
    schedule.at(1.0, lambda: seen.append("a"))
    schedule.at(2.0, lambda: seen.append("b"))
    schedule.run_until(10.0, lambda: bool(seen))
    assert (seen, schedule.now) == (["a"], 1.0)
