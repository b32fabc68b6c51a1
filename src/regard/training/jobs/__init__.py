"""How a recipe becomes something to train: one file a task.

A job is a task's data and an untrained model, ready for the trainer; what it measures when the training is over goes
into run.json.
"""
