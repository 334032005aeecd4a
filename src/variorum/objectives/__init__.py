"""What a model is trained to do: corrupt a batch into inputs and targets, and score the model on them.

An objective is made from the spec, and trains whatever architecture :mod:`variorum.spec.rules` allows it::

    spec = variorum.architecture("bert").set({"objective.pair": None})
    objective = objective_for(spec, Symbols.of(tokenizer))
    model = variorum.build(spec, head=objective.requires)
    example = objective.corrupt({"input_ids": rows, "attention_mask": mask}, rng)   # padded rows [B, T]
    loss = objective.loss(model.train(), example)                                   # a sum and a count
    (loss.total / loss.count).backward()

Rows come with their padding: a model that reads texts end to end gets them without, and only what is asked reaches its
vocabulary. A step that is cut into pieces gives them to :func:`together` first, so that each counts by the whole step;
``objective.networks(model)`` are those that train beside it. ``variorum.training.Trainer`` does all of this.
"""

from variorum.objectives.base import Corrupted, LossSum, Objective, together
from variorum.objectives.making import objective_for
from variorum.objectives.symbols import Symbols

__all__ = ["Corrupted", "LossSum", "Objective", "Symbols", "objective_for", "together"]
