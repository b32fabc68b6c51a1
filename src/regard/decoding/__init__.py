"""Batched autoregressive decoding over a small protocol; knows no concrete model.

Read in this order: stepper, options, filters, ranking, sampling, paths, walks, beam, decode.
"""

from regard.decoding.decode import decode, stream
from regard.decoding.ensemble import EnsembleStepper
from regard.decoding.options import DecodeOptions
from regard.decoding.plan import SyncPolicy
from regard.decoding.ranking import Hypothesis
from regard.decoding.sampling import key_of
from regard.decoding.scoring import force_decode
from regard.decoding.stepper import Stepper

__all__ = [
    "DecodeOptions",
    "EnsembleStepper",
    "Hypothesis",
    "Stepper",
    "SyncPolicy",
    "decode",
    "force_decode",
    "key_of",
    "stream",
]
