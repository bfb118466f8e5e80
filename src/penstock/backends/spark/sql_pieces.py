"""A program as SQL, cut into pieces so that nothing is written twice: what is used often is named, and used by name.

A kernel may use an argument ten times, and the argument's kernel its own: written out, that is a hundred, and so on.
So every step is first written with its arguments by name. Then it is known how often each name occurs, and whoever
occurs once, or is hardly longer than a name, takes its place in the text; the others stay pieces. Pieces are computed
in rounds, each from those before it (`penstock.backends.spark.sql_functions`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.backends.base import Program, Step
from penstock.backends.spark.columns import named
from penstock.backends.spark.functions import written
from penstock.backends.spark.sql_text import sql_of
from penstock.expr.nodes import Call

PREFIX = "__penstock_"
SHORT = 60
"""Letters up to which a text stands where it is used, however often."""
LAMBDA = re.compile(r"[`)] -> ")
"""How `penstock.backends.spark.sql_text` writes the head of a lambda, of one name or of two."""
NAME = re.compile(rf"`{PREFIX}(\d+)`")


@dataclass(frozen=True, slots=True)
class Pieces:
    """The texts of a program: of the result, and of the pieces that it and others use, round by round."""

    rounds: tuple[tuple[int, ...], ...]
    texts: dict[int, str]
    result: int
    written: int
    """How long it would be with every piece written where it is used. So long it becomes in a filter, into which Spark
    puts what the filter's columns are computed from."""

    def needs(self, place: int) -> set[int]:
        """The pieces that a text names."""
        return {int(found) for found in NAME.findall(self.texts[place])}


def piece(place: int) -> str:
    """The name of a piece."""
    return f"{PREFIX}{place}"


def pieces(program: Program, name: str = "value") -> Pieces:
    """Cut the program of an output."""
    from penstock.backends.spark import kept_apart

    steps, result = program.steps, program.outputs[name]
    with written():
        alone = [_alone(step, place, steps) for place, step in enumerate(steps)]
        texts = [
            sql_of(kept_apart(steps, program.columns, column) if place == result else column)
            for place, column in enumerate(alone)
        ]
    lengths = _lengths(texts)
    kept = _kept(texts, lengths, result)
    for place in range(len(texts)):
        texts[place] = NAME.sub(lambda found: _inside(found, kept, texts), texts[place])
    rounds = _rounds(texts, [place for place in sorted(kept) if place != result])
    return Pieces(rounds, {place: texts[place] for place in {*kept, result}}, result, lengths[result])


def _alone(step: Step, place: int, steps: Sequence[Step]) -> object:
    """A step's Column with its arguments by name; columns and constants as they are."""
    from penstock.backends.spark import column_of

    used = {arg: _leaf_or_name(steps[arg], arg) for arg in step.args}
    return column_of(step, used, None)


def _leaf_or_name(step: Step, place: int) -> object:
    from penstock.backends.spark import column_of

    return named(piece(place)) if isinstance(step.node, Call) else column_of(step, {}, None)


def _lengths(texts: list[str]) -> list[int]:
    """How long each text is with everything written out."""
    found: list[int] = []
    for text in texts:
        found.append(len(text) + sum(found[int(used)] for used in NAME.findall(text)))
    return found


def _kept(texts: list[str], lengths: list[int], result: int) -> set[int]:
    """The steps that stay pieces: used more than once, long, and without a lambda."""
    times, kept, bound = [0] * len(texts), {result}, _bound(texts)
    times[result] = 1
    for place in range(len(texts) - 1, -1, -1):  # who uses a step stands behind it
        if not times[place]:
            continue
        if times[place] > 1 and lengths[place] > SHORT and place not in bound:
            kept.add(place)
        for used in NAME.findall(texts[place]):
            times[int(used)] += 1 if place in kept else times[place]
    return kept


def _bound(texts: list[str]) -> set[int]:
    """Steps that cannot be handed to a function: those with a lambda, which Spark takes in its body alone."""
    found: set[int] = set()
    for place, text in enumerate(texts):
        if LAMBDA.search(text) or any(int(used) in found for used in NAME.findall(text)):
            found.add(place)
    return found


def _inside(found: re.Match[str], kept: set[int], texts: list[str]) -> str:
    place = int(found[1])
    return found[0] if place in kept else texts[place]


def _rounds(texts: list[str], kept: list[int]) -> tuple[tuple[int, ...], ...]:
    """Pieces by the round in which all they use is there."""
    numbers: dict[int, int] = {}
    for place in kept:
        numbers[place] = 1 + max((numbers[int(used)] for used in NAME.findall(texts[place])), default=-1)
    return tuple(
        tuple(place for place in kept if numbers[place] == number) for number in sorted({*numbers.values()})
    )
