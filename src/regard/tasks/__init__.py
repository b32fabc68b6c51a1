"""What models are used for: a folder a task, one registry, and what every trained model can do once it is loaded."""
