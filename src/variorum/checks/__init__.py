"""What is said of the mechanisms of transformers, each as a check that takes seconds: the figure found, the one
expected, and how it was found.

:mod:`~variorum.checks.registry` lists them; the other modules hold one function for each. Models are nano ones unless
another is named. Nothing here is trained, but for :mod:`~variorum.checks.answering`.
"""
