"""Runs of every task on single texts, trained once for all tests of this folder that a worker runs."""

from functools import cache

import pytest

import tiny_tasks


@pytest.fixture(scope="session")
def run_of(tmp_path_factory):
    """The run of a task."""

    @cache
    def made(task):
        return tiny_tasks.train_tiny(task, tmp_path_factory.mktemp(task))

    return made
