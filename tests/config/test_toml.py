"""TOML that is written reads back as what it was."""

import math
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from regard.config.toml import write_toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
SECTIONS = st.dictionaries(TEXT, SCALARS | st.dictionaries(TEXT, VALUES, max_size=4), max_size=4)


@given(SECTIONS)
def test_it_reads_back(config: dict[str, object]) -> None:
    read = tomllib.loads(write_toml(config))
    assert read == config
    assert repr(sorted(read.items())) == repr(sorted(config.items()))  # 1 stays a whole number, 1.0 and -0.0 do not


def test_what_is_not_set_is_left_out() -> None:
    assert write_toml({"a": None, "b": {"c": None, "d": (1, 2)}}) == "[b]\nd = [1, 2]\n"


def test_numbers_that_are_none_are_written() -> None:
    read = tomllib.loads(write_toml({"x": {"low": -math.inf, "nan": math.nan, "small": 1e-9}}))["x"]
    assert read["low"] == -math.inf
    assert math.isnan(read["nan"])
    assert read["small"] == 1e-9


def test_it_is_laid_out_for_people() -> None:
    config = {"task": "translation", "data": {"test": {"flickr 2016": ["a", "b"]}}, "train": {"lr": 0.001, "on": True}}
    assert write_toml(config) == (
        'task = "translation"\n\n[data]\ntest = { "flickr 2016" = ["a", "b"] }\n\n[train]\nlr = 0.001\non = true\n'
    )
