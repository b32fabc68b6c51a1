"""What is wrong with sentence pairs, counted as they stream by; nothing is dropped without being told.

    empty       a side holds nothing but whitespace
    long        a side has more than `max_length` characters
    ratio       one side is more than `max_ratio` times the other, in characters, each counted as at least 10
    duplicate   the same pair came before
    overlap     the same pair is in the held-out data

Characters, because they exist in every script; words do not. Pairs are compared without their outer whitespace, through
hashes of 8 bytes: one set entry for each pair, whatever its length. For each problem: drop it, refuse it, or keep it.
"""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from hashlib import blake2b

from regard.config.data import Action
from regard.data.text.pairs import Pair
from regard.errors import DataError

PROBLEMS = ("empty", "long", "ratio", "duplicate", "overlap")
_SHORT = 10  # characters: below this a ratio says nothing ("Ja." and "Yes, of course.")
_EXAMPLES = 3


@dataclass(frozen=True)
class Policy:
    """What to do about each problem: "drop" the pair, "refuse" the data, or "keep" the pair; all are counted."""

    empty: Action = "drop"
    long: Action = "drop"
    ratio: Action = "drop"
    duplicate: Action = "keep"
    overlap: Action = "drop"

    def action(self, problem: str) -> Action:
        """The action for a problem."""
        action: Action = getattr(self, problem)
        return action


@dataclass
class Report:
    """What the checks saw: `counts` by problem (a pair may have several) and the first few `examples` of each."""

    name: str
    policy: Policy
    read: int = 0
    kept: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PROBLEMS, 0))
    examples: dict[str, list[str]] = field(default_factory=lambda: {problem: [] for problem in PROBLEMS})

    @property
    def dropped(self) -> int:
        """How many pairs were left out so far."""
        return self.read - self.kept

    def lines(self) -> list[str]:
        """The report for people: a line in all, a line for each problem that occurred, and its examples."""
        text = [f"{self.name}: {self.kept:,} of {self.read:,} pairs kept, {self.dropped:,} dropped"]
        verbs = {"drop": "dropped", "keep": "kept", "refuse": "refused"}
        for problem, count in self.counts.items():
            if count:
                text.append(f"  {problem}: {count:,} {verbs[self.policy.action(problem)]}")
                text += [f"    {example}" for example in self.examples[problem]]
        return text


class CheckedPairs:
    """The pairs that pass, streamed once; `report` grows as they are read and is complete at the end."""

    def __init__(self, pairs: Iterator[Pair], report: Report) -> None:
        self._pairs, self.report = pairs, report

    def __iter__(self) -> Iterator[Pair]:
        return self._pairs


def check_pairs(
    pairs: Iterable[Pair],
    *,
    name: str = "pairs",
    max_length: int = 4000,
    max_ratio: float = 9.0,
    policy: Policy | None = None,
    held_out: Set[int] = frozenset(),
) -> CheckedPairs:
    """Check a stream of pairs, as it is read. `held_out` are the `pair_hashes` of data that training must not see."""

    report = Report(name, policy or Policy())
    return CheckedPairs(_check(pairs, report, max_length=max_length, max_ratio=max_ratio, held_out=held_out), report)


def pair_hashes(*streams: Iterable[Pair]) -> set[int]:
    """The hashes of all pairs, for `held_out`."""
    return {_hash(pair) for pairs in streams for pair in pairs}


def _check(
    pairs: Iterable[Pair], report: Report, *, max_length: int, max_ratio: float, held_out: Set[int]
) -> Iterator[Pair]:
    seen: set[int] = set()
    for pair in pairs:
        report.read += 1
        problems = _problems_of_text(pair, max_length=max_length, max_ratio=max_ratio)
        if "empty" not in problems:
            key = _hash(pair)
            problems += ["duplicate"] * (key in seen) + ["overlap"] * (key in held_out)
            seen.add(key)
        if _settle(pair, problems, report):
            report.kept += 1
            yield pair
    if not report.kept:
        hint = "; ".join(line.strip() for line in report.lines()[1:]) or None
        raise DataError(f"{report.name}: no usable pairs, {report.read:,} were read", hint=hint)


def _problems_of_text(pair: Pair, *, max_length: int, max_ratio: float) -> list[str]:
    lengths = len(pair.source.strip()), len(pair.target.strip())
    if not min(lengths):
        return ["empty"]
    shorter, longer = (max(_SHORT, length) for length in sorted(lengths))
    return ["long"] * (max(lengths) > max_length) + ["ratio"] * (longer > max_ratio * shorter)


def _settle(pair: Pair, problems: list[str], report: Report) -> bool:
    """Count the problems of a pair; whether it is kept."""
    for problem in problems:
        report.counts[problem] += 1
        shown = f"{pair.file or report.name}:{pair.line}: {shorten(pair.source)} | {shorten(pair.target)}"
        if report.policy.action(problem) == "refuse":
            raise DataError(
                f"{shown}: refused, {problem}", hint=f"mend the data, or set the policy for {problem} to drop"
            )
        if len(report.examples[problem]) < _EXAMPLES:
            report.examples[problem].append(shown)
    return all(report.policy.action(problem) == "keep" for problem in problems)


def shorten(text: str, most: int = 40) -> str:
    """A text in quotes and in one line, as a message shows it: no more of it than so many characters."""
    text = " ".join(text.split())
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def _hash(pair: Pair) -> int:
    text = f"{pair.source.strip()}\t{pair.target.strip()}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
