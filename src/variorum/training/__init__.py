"""Plain PyTorch training: named random streams, optimiser and schedule, one loop, held-out scoring.

The loop knows an objective and a stream of batches; it does not know models by name, files or studies.
"""
