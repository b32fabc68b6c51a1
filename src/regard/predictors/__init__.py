"""Trained models, ready for their tasks: one file a task, and `load`, which opens a folder."""

from regard.predictors.base import Evaluation, Predictor, ScoreData
from regard.predictors.opening import load
from regard.predictors.translation import Prediction, TranslationPredictor

__all__ = ["Evaluation", "Prediction", "Predictor", "ScoreData", "TranslationPredictor", "load"]
