"""ELMo's bidirectional language model: what read text before attention did, kept as a contrast.

Its two stacks are trained side by side and never meet: the half of a state that comes from the left has seen nothing of
what follows. BERT's states see both sides in every layer. No weights are published in a layout of today.
"""

from __future__ import annotations

from variorum.spec.architecture import Architecture, Init
from variorum.spec.heads import SequenceHead, TokenHead, TwoWayHead
from variorum.spec.inputs import TokenInput
from variorum.spec.model import Model
from variorum.spec.recipe import Objective, Recipe, Tokenizer
from variorum.spec.recurrent import Recurrent

TABLE = "recurrent.input.table"
BILM = Model(
    name="bilm",
    cite="Peters et al. 2018, arXiv:1802.05365",
    architecture=Architecture(
        width=1024,
        recurrent=Recurrent(input=TokenInput(vocab=30_522, dropout=0.1), depth=2, cells=4096, dropout=0.1),
        heads={
            "bidirectional_lm": TwoWayHead(tie=TABLE, bias=True),
            "sequence_classification": SequenceHead(take="mean"),
            "token_classification": TokenHead(),
            "question_answering": TokenHead(dropout=0.0),
        },
        init=Init(std=None),
    ),
    tokenizer=Tokenizer(kind="wordpiece"),
    objective=Objective(kind="bidirectional_lm"),
    recipe=Recipe(),
    weaknesses=("latency", "signal-density"),
)
MODELS = (BILM,)
