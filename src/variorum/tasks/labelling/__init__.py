"""Labels by a model that was never trained on them, as honest as a sample of people's labels can make them.

A :class:`~variorum.tasks.zero_shot.Scorer` gives scores; here they are corrected for what the model likes whatever the
text, become probabilities, and are withheld where two labels are too near (:mod:`.correction`). Agreement with people
is measured on a sample (:mod:`.agreement`), and what such labels are worth to a small model that learns from them is a
paired comparison of people's labels alone, the model's alone, and both (:mod:`.worth`). :mod:`.job` is all of it.
"""
