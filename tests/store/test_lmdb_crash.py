"""What a crash leaves: exactly what was committed, whatever the disk had written of the rest."""

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tiercel.model.errors import StoreFailedError
from tiercel.store import Keyspace
from tiercel.store.lmdb_files import DATA_NAME
from tiercel.store.lmdb_store import LmdbStore

from .helpers import MESSAGES, Contents, committed, key, program, record, run

PAGE = 4096
SECTOR = 512
KILLS = 20


class TestTornCommits:
    """A commit writes its pages, syncs, and then writes one of the two meta pages at the head of the file.

    When the machine stops before the meta page, any part of the other pages may have reached the disk, and
    pages may be torn. The old state must stand in all of these files, and the new one in the whole file.
    """

    BATCHES = 25
    HYBRIDS = 6  # of each kind, per batch

    @pytest.mark.parametrize("seed", range(3))
    def test_give_the_old_state_or_the_new_one(self, tmp_path: Path, seed: int) -> None:
        rand = random.Random(seed)
        directory = tmp_path / "data"
        store = LmdbStore.open(directory, max_bytes=2**20)
        old = committed(store)
        tried = 0
        for _ in range(self.BATCHES):
            before = (directory / DATA_NAME).read_bytes()
            new = random_batch(store, rand, old)
            after = (directory / DATA_NAME).read_bytes()
            assert state_of(tmp_path, after) == new
            for image in self.hybrids(before, after, rand):
                assert state_of(tmp_path, image) == old
                tried += 1
            old = new
        store.close()
        assert tried >= self.BATCHES * self.HYBRIDS

    def hybrids(self, before: bytes, after: bytes, rand: random.Random) -> list[bytes]:
        changed = changed_pages(before, after)
        assert changed
        images = [apply(before, after, changed)]  # all of it but the meta page
        for _ in range(self.HYBRIDS):
            some = rand.sample(changed, rand.randint(0, len(changed)))
            images.append(apply(before, after, some))
            images.append(apply(before, after, some, torn=rand.randrange(SECTOR, PAGE, SECTOR)))
        return images

    def test_the_meta_page_is_what_decides(self, tmp_path: Path) -> None:
        """With its first sector, the commit is there: all that LMDB writes of it lies in one sector."""
        rand = random.Random(7)
        directory = tmp_path / "data"
        store = LmdbStore.open(directory, max_bytes=2**20)
        old = committed(store)
        for _ in range(10):
            before = (directory / DATA_NAME).read_bytes()
            old = random_batch(store, rand, old)
            after = (directory / DATA_NAME).read_bytes()
            differing = [at for at in range(2 * PAGE) if before[at] != after[at]]
            assert {at // PAGE for at in differing} in ({0}, {1})
            assert all(at % PAGE < SECTOR for at in differing)
        store.close()

    def test_a_lost_page_of_a_finished_commit_would_be_seen(self, tmp_path: Path) -> None:
        """The control: these checks can fail. LMDB may crash on such a file, the verifier does not."""
        rand = random.Random(3)
        directory = tmp_path / "data"
        store = LmdbStore.open(directory, max_bytes=2**20)
        before = (directory / DATA_NAME).read_bytes()
        random_batch(store, rand, committed(store))
        store.close()
        after = (directory / DATA_NAME).read_bytes()
        lost = apply(after, before, changed_pages(before, after))
        (directory / DATA_NAME).write_bytes(lost)
        assert LmdbStore.verify(directory) != []


def random_batch(store: LmdbStore, rand: random.Random, old: Contents) -> Contents:
    """Commits some puts and deletes; the state after it."""
    new = {space: dict(records) for space, records in old.items()}
    batch = store.begin()
    for _ in range(rand.randint(1, 12)):
        space = rand.choice([MESSAGES, MESSAGES, Keyspace.STATS])
        if new[space] and rand.random() < 0.45:
            name = rand.choice(sorted(new[space]))
            batch.delete(space, name)
            del new[space][name]
        else:
            name = key(rand.randint(1, 3), rand.randint(1, 10**6))
            value = record(rand.randint(1, 10**6), rand.choice([20, 1300, 1300, 9000]))
            batch.put(space, name, value)
            new[space][name] = value
    batch.put(Keyspace.SEQUENCES, b"number", rand.randbytes(8))  # so that no batch is empty
    new[Keyspace.SEQUENCES] = {b"number": batch.get(Keyspace.SEQUENCES, b"number") or b""}
    batch.commit()
    return new


def changed_pages(before: bytes, after: bytes) -> list[int]:
    """The pages that the commit wrote, without the two meta pages."""
    assert len(before) == len(after)
    starts = range(2 * PAGE, len(after), PAGE)
    return [start // PAGE for start in starts if before[start : start + PAGE] != after[start : start + PAGE]]


def apply(before: bytes, after: bytes, pages: list[int], torn: int = PAGE) -> bytes:
    """`before` with the first `torn` bytes of these pages as they are in `after`."""
    image = bytearray(before)
    for page in pages:
        image[page * PAGE : page * PAGE + torn] = after[page * PAGE : page * PAGE + torn]
    return bytes(image)


def state_of(tmp_path: Path, image: bytes) -> Contents:
    """What a new start finds in a data file."""
    directory = tmp_path / "crashed"
    directory.mkdir()
    (directory / DATA_NAME).write_bytes(image)
    store = LmdbStore.open(directory, max_bytes=2**20, create=False)
    try:
        return committed(store)
    finally:
        store.close()
        shutil.rmtree(directory)


def test_a_killed_process_leaves_all_that_it_told_of(directory: Path) -> None:
    """Each commit adds ten records and takes away five; the process is killed at any moment."""
    rand = random.Random(11)
    told = 0
    for _ in range(KILLS):
        told = killed_after(directory, told, rand.uniform(0.001, 0.05))
        store = LmdbStore.open(directory)
        found = committed(store)
        store.close()
        commits = int.from_bytes(found[Keyspace.SEQUENCES].get(b"commits", b"\0"), "big")
        assert commits in {told, told + 1}  # the last may have been killed between commit and telling
        assert found[MESSAGES] == expected_after(commits)
        told = commits
    assert told >= KILLS  # each told of one at least
    assert LmdbStore.verify(directory) == []


def expected_after(commits: int) -> dict[bytes, bytes]:
    return {key(1, number): record(number) for number in range(5 * commits, 10 * commits)}


def killed_after(directory: Path, told: int, seconds: float) -> int:
    """Runs the writer until it has told of a commit, and some time more; the last commit that it told of."""
    with subprocess.Popen(program(WRITER, directory), stdout=subprocess.PIPE, text=True) as writer:  # noqa: S603
        assert writer.stdout is not None
        lines = [writer.stdout.readline()]
        time.sleep(seconds)
        writer.kill()
        lines += writer.stdout.read().splitlines(keepends=True)
    whole = [int(line) for line in lines if line.endswith("\n")]
    assert whole == list(range(told + 1, told + 1 + len(whole)))
    return whole[-1]


WRITER = """
    import sys
    from pathlib import Path
    from store.helpers import *
    from tiercel.store import Keyspace
    from tiercel.store.lmdb_store import LmdbStore
    store = LmdbStore.open(Path(sys.argv[1]))
    batch = store.begin()
    commits = int.from_bytes(batch.get(Keyspace.SEQUENCES, b"commits") or b"", "big")
    batch.abort()
    while True:
        batch = store.begin()
        fill(batch, range(10 * commits, 10 * commits + 10))
        for number in range(5):
            batch.delete(MESSAGES, batch.first(MESSAGES, LOWEST, HIGHEST)[0])
        commits += 1
        batch.put(Keyspace.SEQUENCES, b"commits", commits.to_bytes(8, "big"))
        batch.commit()
        print(commits, flush=True)
"""


def test_a_failed_commit_ends_the_store_and_loses_nothing_before_it(directory: Path) -> None:
    """The kernel refuses the write at commit: RLIMIT_FSIZE holds inside an allocated file as well."""
    said = run(
        """
        import resource, sys
        from pathlib import Path
        from store.helpers import *
        from tiercel.model.errors import StoreFailedError
        from tiercel.store.lmdb_store import LmdbStore
        store = LmdbStore.open(Path(sys.argv[1]))
        batch = store.begin()
        fill(batch, range(10))
        batch.commit()
        batch = store.begin()
        fill(batch, range(10, 20))
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, resource.RLIM_INFINITY))
        def snapshot():
            with store.snapshot():
                pass
        uses = [batch.commit, store.begin, snapshot, lambda: fill(batch, range(1)), batch.commit, store.begin]
        for use in uses:
            try:
                use()
            except StoreFailedError as error:
                print(error)
        batch.abort()
        store.close()
        """,
        directory,
    )
    lines = said.splitlines()
    assert len(lines) == 6
    assert all("a commit failed" in line and str(directory) in line for line in lines)
    store = LmdbStore.open(directory)
    assert committed(store)[MESSAGES] == {key(1, number): record(number) for number in range(10)}
    store.close()


def test_a_store_that_failed_can_be_closed(lmdb_store: LmdbStore) -> None:
    with pytest.raises(StoreFailedError, match="tried"):
        lmdb_store.fail("tried", OSError())
    with pytest.raises(StoreFailedError, match="tried"):
        lmdb_store.begin()
    lmdb_store.close()
