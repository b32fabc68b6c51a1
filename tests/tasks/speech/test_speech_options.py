"""How speech is decoded unless it is told."""

import pytest

from regard.errors import ConfigError
from regard.tasks.speech.config import SpeechOptions


def test_a_beam_over_speech_waits_for_more_ends_than_it_is_wide():
    assert SpeechOptions(strategy="beam", beam=5).patience == 2.0
    assert SpeechOptions(strategy="beam", beam=5, patience=1.0).patience == 1.0


def test_what_all_tasks_take_for_granted_is_no_wish():
    SpeechOptions(strategy="greedy", patience=1.0)  # as runs have written it down
    with pytest.raises(ConfigError, match=r"patience=3\.0 is for strategy 'beam'"):
        SpeechOptions(strategy="greedy", patience=3.0)
