"""Who gets which part, and what happens when workers die."""

import pytest

from inline_engine import InlineEngine
from regard.errors import DataError, EnvironmentProblem
from regard.scale.driver import Driver
from regard.scale.engine import Death, Ready
from regard.scale.parts import Part
from regard.scale.worker import PartOutput
from regard.tasks.predicting.inputs import Given


def parts(n):
    return [Part(number, number + 1, ([Given(str(number), "", "")],)) for number in range(n)]


def output(part):
    return PartOutput(part.name.encode(), 1, 0, "", False, None, None)


def drive(engine, given):
    taken, lost = {}, []

    def take(part, made):
        assert part.number not in taken
        taken[part.number] = made.content

    Driver(engine, iter(given), take=take, give_up=lambda part, why: lost.append((part.number, why))).run()
    return taken, lost


@pytest.mark.parametrize("n", [0, 1, 2, 3, 20])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_part_is_taken_once(n, size):
    engine = InlineEngine(output, size=size)
    taken, lost = drive(engine, parts(n))
    assert taken == {part.number: part.name.encode() for part in parts(n)}
    assert lost == []
    assert engine.started == min(n, size)


def test_a_part_is_tried_again_with_a_new_worker():
    deaths = {3: 2, 5: 1, 6: 2}

    def answer(part):
        if deaths.get(part.number, 0):
            deaths[part.number] -= 1
            return Death("was ended by SIGKILL")
        return output(part)

    engine = InlineEngine(answer)
    taken, lost = drive(engine, parts(10))
    assert sorted(taken) == list(range(10))
    assert (lost, engine.started) == ([], 2 + 5)


def test_a_part_that_ends_three_workers_is_given_up_and_the_others_go_on():
    engine = InlineEngine(lambda part: Death("was ended by SIGKILL") if part.number == 4 else output(part))
    taken, lost = drive(engine, parts(10))
    assert sorted(taken) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert lost == [(4, "was ended by SIGKILL")]
    assert engine.started == 2 + 3


def test_workers_that_never_open_end_the_work():
    engine = InlineEngine(output, open=lambda: Death("was ended by SIGKILL"))
    with pytest.raises(EnvironmentProblem, match=r"opened the model was ended by SIGKILL, 3 times") as problem:
        drive(engine, parts(5))
    assert problem.value.hint == "is there memory for one model a worker? try --workers 1"


def test_one_that_opens_makes_up_for_those_that_did_not():
    tries = iter([Death("x"), Death("x"), Ready(), Death("x"), Death("x"), Ready()])
    taken, _ = drive(InlineEngine(output, size=1, open=lambda: next(tries)), parts(4))
    assert len(taken) == 4


def test_what_is_wrong_with_the_model_ends_everything():
    problem = DataError("it is damaged")
    with pytest.raises(DataError, match="it is damaged"):
        drive(InlineEngine(output, open=lambda: problem), parts(3))
    with pytest.raises(DataError, match="it is damaged"):
        drive(InlineEngine(lambda part: problem if part.number == 1 else output(part)), parts(3))


def test_the_input_is_read_no_further_than_workers_need():
    read, done = [], []

    def given():
        for part in parts(50):
            read.append(part.number)
            yield part

    def take(part, made):
        done.append(part.number)
        assert len(read) - len(done) <= 2 * 2

    Driver(InlineEngine(output), given(), take=take, give_up=lambda part, why: None).run()
    assert len(done) == 50
