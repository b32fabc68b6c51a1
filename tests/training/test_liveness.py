"""The watch over other processes: those of this machine by their numbers, others by what they say at the store."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from regard.checkpoints.lock import start_of
from regard.training.liveness import Pace, Peer, PeerWatch

QUICK = Pace(beat=0.02, silent=0.5, grace=0.1)


class Shared:
    """A store in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.gone = False

    def set(self, key: str, value: str) -> None:
        if self.gone:
            raise RuntimeError("connection reset")
        self.values[key] = value.encode()

    def get(self, key: str) -> bytes:
        if self.gone:
            raise RuntimeError("connection reset")
        return self.values[key]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def near(process: subprocess.Popen[bytes]) -> list[Peer]:
    mine = Peer.here(0)
    return [mine, Peer(1, mine.machine, process.pid, start_of(process.pid) or "")]


def watched(peers: list[Peer], store: Shared | None = None) -> tuple[PeerWatch, threading.Event]:
    lost = threading.Event()
    return PeerWatch(peers, 0, store=store, on_lost=lost.set, pace=QUICK), lost


def test_a_killed_process_of_this_machine_is_missed_before_anybody_asks_after_it(child) -> None:
    watch, lost = watched(near(child))
    assert not lost.wait(0.3)
    child.kill()  # nobody has waited for it: its number is still there
    assert lost.wait(10)
    watch.close()


def test_another_process_of_the_same_number_is_not_the_one_that_was_there(child) -> None:
    mine, other = near(child)
    _, lost = watched([mine, other._replace(started="another start")])
    assert lost.wait(10)


def test_who_notices_by_himself_is_left_in_peace(child) -> None:
    watch, lost = watched(near(child))
    child.kill()
    watch.close()
    assert not lost.wait(0.5)


def far(store: Shared, say: Callable[[], str]) -> list[Peer]:
    store.set("regard-alive-1", say())
    return [Peer.here(0), Peer(1, "another machine", 1, "")]


def test_a_process_of_another_machine_is_missed_when_nothing_is_heard_of_it() -> None:
    store = Shared()
    began = time.monotonic()
    watch, lost = watched(far(store, lambda: "1"), store)
    for beat in range(40):  # twice as long as silence may last
        store.set("regard-alive-1", str(beat))
        time.sleep(0.025)
    assert not lost.is_set()
    assert int(store.values["regard-alive-0"]) > 1  # it shows that it is there itself
    assert lost.wait(10)
    assert time.monotonic() - began > 1.5
    watch.close()


def test_where_nobody_can_be_met_any_more_all_are_gone() -> None:
    store = Shared()
    _, lost = watched(far(store, lambda: "1"), store)
    store.gone = True
    assert lost.wait(10)


def test_without_a_store_others_machines_are_not_asked_after() -> None:
    watch, lost = watched([Peer.here(0), Peer(1, "another machine", 1, "")])
    assert not lost.wait(0.7)
    watch.close()
