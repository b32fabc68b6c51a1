"""A setting is its default, its bounds, its help and its former names, in one place."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from regard.config.schema import problems, typed
from regard.config.settings import Settings, setting, settings_of
from regard.config.training import TrainConfig
from regard.errors import ConfigError
from regard.models import registry as models
from regard.tasks.registry import task_names, task_spec


@dataclass(frozen=True, kw_only=True)
class Some(Settings):
    section: ClassVar = "some"

    count: int = setting(3, "how many", ge=1, le=9, was="number amount")
    share: float = setting(0.5, "how much", gt=0, lt=1)
    kind: Literal["a", "b"] = setting("a", "which")
    weights: tuple[float, ...] = setting((), "one each", ge=0)
    known: int = setting(0, "what the data says", ge=1, derived=True)
    limit: float | None = setting(None, "unset: none", ge=1, infinite=True)


@dataclass(frozen=True, kw_only=True)
class Fewer(Some):
    unused: ClassVar = ("weights",)

    count: int = 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": 0}, "some.count is 0, from 1 to 9"),
        ({"count": 2.5}, "some.count is 2.5; allowed: a whole number"),
        ({"count": True}, "some.count is True; allowed: a whole number"),
        ({"share": 1.0}, "some.share is 1.0, above 0 and below 1"),
        ({"share": "1"}, "some.share is '1'; allowed: a number"),
        ({"share": float("nan")}, "some.share is nan, above 0 and below 1"),
        ({"kind": "c"}, "some.kind is 'c'; allowed: a, b"),
        ({"kind": None}, "some.kind is None; allowed: a, b"),
        ({"weights": (1.0, -1.0)}, "some.weights holds -1.0, at least 0"),
        ({"weights": (float("inf"),)}, "some.weights holds inf; allowed: a finite number"),
        ({"known": -1}, "some.known is -1, at least 1"),
        ({"limit": 0.5}, "some.limit is 0.5, at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_in_python_and_in_recipes(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as made:
        Some(**given)  # type: ignore[arg-type]
    assert message in str(made.value)
    if isinstance(next(iter(given.values())), int | float) and not isinstance(next(iter(given.values())), bool):
        assert any("some." in line for line in problems(Some, given, where="some"))


def test_what_fits_is_taken() -> None:
    made = Some(count=9, weights=(0, 2.5), limit=float("inf"))
    assert (made.count, made.weights, made.limit, made.known) == (9, (0, 2.5), float("inf"), 0)
    with pytest.raises(ConfigError, match=r"some\.known is 0, at least 1"):
        made.check()


def test_another_default_keeps_bounds_help_and_former_names() -> None:
    one = settings_of(Fewer)["count"]
    assert (one.default, one.what, str(one.bounds), one.was) == (5, "how many", "from 1 to 9", ("number", "amount"))
    with pytest.raises(ConfigError, match=r"some\.count is 10, from 1 to 9"):
        Fewer(count=10)


def test_what_means_nothing_is_refused_and_not_written() -> None:
    with pytest.raises(ConfigError, match=r"some\.weights means nothing to this task; leave it \(\)"):
        Fewer(weights=(1.0,))
    assert Fewer().idle() == {"weights"}


def test_former_names_are_understood_and_both_are_too_many() -> None:
    assert typed(Some, {"amount": "4"}, where="some").count == 4
    with pytest.raises(ConfigError, match=r"some\.number and some\.count are both given.*keep some\.count"):
        typed(Some, {"number": 4, "count": 4}, where="some")
    assert problems(Some, {"numbr": 4}, where="some") == [
        "some.numbr is not known; there are count, share, kind, weights, known, limit"
    ]


def test_records_of_others_may_be_plain() -> None:
    @dataclass(frozen=True)
    class Theirs:
        width: Annotated[int, Field(ge=2)] = 4

    assert problems(Theirs, {"width": 1}, where="data") == [
        "data.width = 1: input should be greater than or equal to 2"
    ]
    assert settings_of(Theirs)["width"].what == ""


def test_everything_that_can_be_set_is_explained() -> None:
    records = {f"{name}.{s}": r for name in task_names() for s, r in task_spec(name).sections.items()}
    records |= {f"model.{name}": models.entry(name).config for name in models.OURS}
    silent = [f"{where}.{one.name}" for where, r in records.items() for one in settings_of(r).values() if not one.what]
    assert not silent


def test_every_default_lies_within_its_bounds() -> None:
    for name in task_names():
        for record in task_spec(name).sections.values():
            record()
    assert TrainConfig().idle() == {"epochs"}
