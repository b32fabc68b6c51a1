"""What a model is for: examples → batch → loss → metrics → prediction."""
