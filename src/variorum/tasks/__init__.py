"""Jobs that models are used for: label sets, metrics, baselines, and classifiers trained on labels."""
