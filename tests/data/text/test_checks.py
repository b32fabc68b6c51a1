"""Checks: each problem is found, counted, shown and dealt with as asked."""

import pytest

from regard.data.text.checks import Policy, check_pairs, pair_hashes
from regard.data.text.pairs import Pair
from regard.errors import DataError

GOOD = Pair("A dog runs.", "Ein Hund läuft.", 1)
BAD = {
    "empty": Pair("A cat.", " \t", 2),
    "long": Pair("a" * 60, "b" * 60, 3),
    "ratio": Pair("twelve chars", "x" * 49, 4),
    "duplicate": Pair(" A dog runs.", "Ein Hund läuft. ", 5),
    "overlap": Pair("A secret.", "Ein Geheimnis.", 6),
}
LIMITS = {"max_length": 50, "max_ratio": 4.0}
HELD_OUT = pair_hashes([BAD["overlap"]], [Pair("other", "andere", 1)])
KEEP = Policy(empty="keep", long="keep", ratio="keep", duplicate="keep", overlap="keep")


def run(*pairs: Pair, policy: Policy | None = None):  # type: ignore[no-untyped-def]
    checked = check_pairs(pairs, name="train.tsv", held_out=HELD_OUT, policy=policy, **LIMITS)  # type: ignore[arg-type]
    return list(checked), checked.report


@pytest.mark.parametrize("problem", BAD)
def test_each_problem_is_dropped_kept_or_refused(problem: str) -> None:
    for action in ("drop", "keep"):
        kept, report = run(GOOD, BAD[problem], policy=Policy(**{problem: action}))  # type: ignore[arg-type]
        assert kept == ([GOOD] if action == "drop" else [GOOD, BAD[problem]])
        assert {name: n for name, n in report.counts.items() if n} == {problem: 1}
        assert (report.read, report.kept, report.dropped) == (2, len(kept), 2 - len(kept))
    with pytest.raises(DataError, match=f"train.tsv:{BAD[problem].line}: .*: refused, {problem}") as caught:
        run(GOOD, BAD[problem], policy=Policy(**{problem: "refuse"}))  # type: ignore[arg-type]
    assert f"policy for {problem} to drop" in str(caught.value.hint)


def test_clean_pairs_pass() -> None:
    pairs = [
        GOOD,
        Pair("Ja.", "Yes, of course, I do.", 2),
        Pair("a" * 50, "b" * 50, 3),
        Pair("twelve chars", "x" * 48, 4),
    ]
    kept, report = run(*pairs)
    assert kept == pairs
    assert report.lines() == ["train.tsv: 4 of 4 pairs kept, 0 dropped"]


def test_a_pair_with_two_problems_is_counted_for_both_and_dropped_once() -> None:
    worst = Pair("a" * 600, "b", 2)
    kept, report = run(GOOD, worst)
    assert kept == [GOOD]
    assert (report.counts["long"], report.counts["ratio"], report.dropped) == (1, 1, 1)


def test_duplicates_differ_in_either_side() -> None:
    _, report = run(GOOD, GOOD._replace(target="Ein Hund rennt."), GOOD._replace(source="Dogs run."))
    assert report.counts["duplicate"] == 0
    _, report = run(Pair("ab", "c", 1), Pair("a", "bc", 2))
    assert report.counts["duplicate"] == 0, "where one side ends matters"


def test_report_for_people() -> None:
    blanks = [Pair("", f"text {n}", n) for n in range(2, 7)]
    _, report = run(GOOD, *blanks, GOOD._replace(line=9), BAD["long"])
    assert report.lines() == [
        "train.tsv: 2 of 8 pairs kept, 6 dropped",
        "  empty: 5 dropped",
        "    train.tsv:2: '' | 'text 2'",
        "    train.tsv:3: '' | 'text 3'",
        "    train.tsv:4: '' | 'text 4'",
        "  long: 1 dropped",
        f"    train.tsv:3: '{'a' * 39}…' | '{'b' * 39}…'",
        "  duplicate: 1 kept",
        "    train.tsv:9: 'A dog runs.' | 'Ein Hund läuft.'",
    ]


def test_nothing_left_is_an_error_that_says_why() -> None:
    with pytest.raises(DataError, match=r"train\.tsv: no usable pairs, 2 were read") as caught:
        run(BAD["empty"], BAD["overlap"])
    assert "empty: 1 dropped" in str(caught.value.hint)
    assert "overlap: 1 dropped" in str(caught.value.hint)
    with pytest.raises(DataError, match="no usable pairs, 0 were read"):
        run()


def test_pairs_stream() -> None:
    def endless():  # type: ignore[no-untyped-def]
        while True:
            yield GOOD

    checked = check_pairs(endless(), policy=KEEP)
    first = [pair for pair, _ in zip(checked, range(3), strict=False)]
    assert first == [GOOD] * 3
    assert checked.report.counts["duplicate"] >= 2
