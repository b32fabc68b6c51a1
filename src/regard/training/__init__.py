"""Making a model better: schedules, optimizers, averaging of weights, and the loop that uses them."""
