"""What `tiercel multicast` and the API show of groups and sources."""

from pgm.world import ADDRESS, Net
from tiercel.admin.multicast import describe


def test_groups_with_their_queues_and_sources_and_what_is_sent() -> None:
    net = Net()
    here, there = net.add("here"), net.add("there")
    there.create("one", multicast_address=ADDRESS)
    there.create("two", multicast_address=ADDRESS)
    here.to().send(b"hello")
    net.sleep(0.2)
    heard = describe(there.engine, there.multicast)
    (group,) = heard["groups"]
    assert group["address"] == ADDRESS
    assert group["queues"] == [rf"THERE\private$\{name}" for name in ("one", "two")]
    (source,) = group["sources"]
    assert (source["address"], source["packets"], source["lost"]) == (here.address, 1, 0)
    (sent,) = describe(here.engine, here.multicast)["sending"]
    assert (sent["address"], sent["packets"], sent["repairs"]) == (ADDRESS, 1, 0)
    assert sent["session"] == source["session"]


def test_without_multicast_the_subscriptions_are_shown() -> None:
    side = Net().add("here")
    side.create("one", multicast_address=ADDRESS)
    found = describe(side.engine, None)
    assert (found["enabled"], found["groups"][0]["sources"]) == (False, [])
