"""Making a model better: one trainer for every task, schedules, optimizers, averaging of weights."""
