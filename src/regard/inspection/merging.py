"""From pieces to words: weights between words, read off weights between pieces.

A word that is looked at gets the sum of its pieces' weights, for attention to any of them is attention to it; a word
that looks has the mean of its pieces' rows. Rows still sum to one. Marks such as </s> stay, as columns and rows of
their own. Outputs speak of pieces, so they are left out; so are queries and keys.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from regard.inspection.record import Axis, Look, Map
from regard.inspection.words import NO_WORD, Words


def merge_words(look: Look) -> Look:
    """The record between words; axes without words stay as they are."""
    axes = {name: word_axis(axis) for name, axis in look.axes.items()}
    maps = {
        kind: _merged(attention, look.axes[attention.rows], look.axes[attention.columns])
        for kind, attention in look.maps.items()
    }
    used = {side for attention in maps.values() for side in (attention.rows, attention.columns)}
    return Look({name: axes[name] for name in axes if name in used}, maps, None, look.title, about=look.about)


def word_axis(axis: Axis) -> Axis:
    """An axis of words, marks between them."""
    if axis.words is None:
        return axis
    labels, of_word = [], []
    for group in axis.words.groups():
        word = axis.words.of_piece[group[0]]
        labels.append(axis.labels[group[0]] if word == NO_WORD else axis.words.texts[word])
        of_word.append(word)
    return Axis(labels, "words", Words(axis.words.texts, of_word))


def _merged(attention: Map, rows: Axis, columns: Axis) -> Map:
    asked = _memberships(rows)
    mean = asked / asked.sum(0)
    weights = mean.T @ attention.weights.astype(np.float64) @ _memberships(columns)
    return replace(attention, weights=weights.astype(np.float32), computed=None)


def _memberships(axis: Axis) -> NDArray[np.float64]:
    """Which place belongs to which group, (places, groups): 0 or 1."""
    groups = axis.words.groups() if axis.words is not None else [[index] for index in range(len(axis))]
    members = np.zeros((len(axis), len(groups)))
    for number, group in enumerate(groups):
        members[group, number] = 1
    return members
