"""Work that threads do side by side: in order, each with its part of the processors, and nothing is left changed."""

import threading
import time

import pytest
import torch

from regard.config.threads import in_threads


@pytest.fixture(autouse=True)
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items():
    meet = threading.Barrier(2, timeout=20)  # passed by two at once only

    def work(item):
        meet.wait()
        return item * item, torch.get_num_threads()

    found = list(in_threads(work, range(8), n=2))
    assert [square for square, _ in found] == [n * n for n in range(8)]
    assert {threads for _, threads in found} == {2}
    assert torch.get_num_threads() == 4
    heard = []
    other = threading.Thread(target=lambda: heard.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert heard == [4]


@pytest.mark.parametrize(("items", "n"), [([3], 2), ([3, 4], 1), ([], 2)])
def test_where_there_is_nothing_to_share_it_is_done_here(items, n):
    me = threading.get_ident()
    assert list(in_threads(lambda item: (item, threading.get_ident()), items, n=n)) == [(i, me) for i in items]


def test_a_problem_is_told_and_the_rest_is_left():
    done = []

    def work(item):
        if item == 1:
            raise ValueError("no one")
        time.sleep(0.02)
        done.append(item)

    with pytest.raises(ValueError, match="no one"):
        list(in_threads(work, range(50), n=2))
    assert len(done) < 50
    assert torch.get_num_threads() == 4
