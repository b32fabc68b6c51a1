"""How many workers there are, and what each has."""

from pathlib import Path

import pytest
import torch

from golden_inputs import GOLDEN
from regard.errors import UsageError
from regard.scale import resources
from regard.scale.resources import assignments, read_workers
from regard.tasks.predicting.inputs import Inputs
from regard.tasks.predicting.request import Request

NONE = Inputs((), 0, 512)
RUN = GOLDEN / "finished" / "translation"


@pytest.fixture
def eight_cores(monkeypatch):
    monkeypatch.setattr(resources, "cores", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    monkeypatch.setattr(resources, "free_memory", lambda: 64 << 30)


@pytest.fixture
def three_gpus(monkeypatch):
    def choose(name):
        return torch.device("cuda", 0) if name in ("auto", "cuda") else torch.device(name)

    monkeypatch.setattr(resources, "choose_device", choose)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)


def given(device="cpu", run=RUN, **more):
    return Request(Path(run), device=device, **more)


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(("workers", "n", "threads"), [(None, 8, 1), (1, 1, 8), (2, 2, 4), (3, 3, 2), (20, 20, 1)])
def test_workers_share_the_cores(workers, n, threads):
    made = assignments(given(), NONE, workers)
    assert [(one.device, one.threads) for one in made] == [("cpu", threads)] * n


@pytest.mark.usefixtures("eight_cores")
def test_threads_are_no_more_than_pytorch_would_take(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert [one.threads for one in assignments(given(), NONE, 2)] == [1, 1]


@pytest.mark.usefixtures("eight_cores")
def test_there_is_memory_for_a_model_a_worker(monkeypatch, tmp_path):
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(4 << 30)
    assert len(assignments(given(run=tmp_path), NONE, None)) == 7  # 9 GiB each
    assert len(assignments(given(run=tmp_path, ensemble=(tmp_path,)), NONE, None)) == 3
    monkeypatch.setattr(resources, "free_memory", lambda: 0)
    assert len(assignments(given(run=tmp_path), NONE, None)) == 1


@pytest.mark.usefixtures("eight_cores", "three_gpus")
@pytest.mark.parametrize(
    ("device", "workers", "cluster", "devices"),
    [
        ("auto", None, False, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda", 4, False, ["cuda:0", "cuda:1", "cuda:2", "cuda:0"]),
        ("cuda:2", None, False, ["cuda:2"]),
        ("cuda", 2, True, ["cuda", "cuda"]),
    ],
)
def test_a_worker_a_gpu(device, workers, cluster, devices):
    assert [one.device for one in assignments(given(device), NONE, workers, cluster=cluster)] == devices


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", ""])
def test_what_is_no_number_of_workers(text):
    with pytest.raises(UsageError, match="allowed is a number from 1, or auto"):
        read_workers(text)
    assert (read_workers("auto"), read_workers("12")) == (None, 12)
