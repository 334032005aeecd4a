"""Every check: its name, the mechanism whose claim it tries, and the function that tries it.

This module knows no tensor, so that the list is told at once; a check's function is imported when it runs.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from variorum.checks.finding import Finding
from variorum.errors import NotFound, UsageError, nearest

if TYPE_CHECKING:
    from variorum.model import Model


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """One check.

    Attributes:
        name: in the field's words; its function in ``module`` is called so, with underscores.
        id: of the mechanism.
        title: the claim in one line.
        seconds: about how long it takes on one thread.
        models: the specs whose nano models it is tried on where nobody names another; without any, it is about none.
    """

    name: str
    id: str
    title: str
    module: str
    seconds: float
    models: tuple[str, ...] = ()

    def run(self) -> list[Finding]:
        """What is found, where the check is about no one model."""
        return list(self._function())

    def on(self, model: Model) -> list[Finding]:
        """What is found on ``model``, in float64 and eval.

        Raises:
            UsageError: the check is about no one model.
            NotApplicable: the claim is not about a model like this one.
        """
        if not self.models:
            raise UsageError(f"{self.name} is about no one model", remedy="leave out --model")
        return list(self._function(model))

    def _function(self, *given: Model) -> Iterable[Finding]:
        module = importlib.import_module(f"variorum.checks.{self.module}")
        function: Callable[..., Iterable[Finding]] = getattr(module, self.name.replace("-", "_"))
        return function(*given)


CHECKS = (
    Check(name="parameter-count", id="C1", module="cost", seconds=11,
          title="parameters counted from a spec are those of the built model"),
    Check(name="token-flops", id="C2", module="cost", seconds=2,
          title="a token costs two operations a weight and four a channel of each key"),
    Check(name="shared-layers", id="C3", module="cost", seconds=0.1,
          title="sharing layers saves parameters and no operation"),
    Check(name="receptive-field", id="C4", module="attention", seconds=0.4, models=("mistral", "modernbert"),
          title="l layers of window W see l(W - 1) + 1 tokens"),
    Check(name="kv-cache", id="C5", module="decoding", seconds=0.5, models=("gpt2", "llama-3", "gemma", "t5"),
          title="the cache has the bytes that are told, and reading from it changes nothing"),
    Check(name="cache-bytes", id="C5", module="cost", seconds=0.5,
          title="bytes of keys and values for a token of published models"),
    Check(name="tiled-attention", id="C6", module="tiles", seconds=0.8,
          title="tiles give the definition's values, in memory that grows as the text"),
    Check(name="sinusoid-distance", id="C7", module="positions", seconds=0.1,
          title="the product of two sinusoidal positions depends on their distance alone"),
    Check(name="rope-distance", id="C7", module="positions", seconds=0.2, models=("llama", "modernbert", "gpt-neox"),
          title="a rotary score depends on the distance alone"),
    Check(name="permutation-equivariance", id="C8", module="attention", seconds=0.2, models=("bert", "gpt2"),
          title="without positions order is invisible, but for a causal mask"),
    Check(name="replaced-token-positions", id="C9", module="objectives", seconds=0.3,
          title="replaced token detection learns from every real token"),
    Check(name="dynamic-masks", id="C10", module="objectives", seconds=0.4,
          title="masks drawn anew hardly repeat and reach every token"),
    Check(name="two-stream-masks", id="C11", module="streams", seconds=0.1,
          title="content sees itself, a query never does, on any row"),
    Check(name="active-parameters", id="C12", module="cost", seconds=0.1,
          title="a mixture holds all experts and uses few"),
    Check(name="rmsnorm-time", id="C13", module="timing", seconds=0.2,
          title="RMSNorm learns half of what LayerNorm does; how long both take"),
    Check(name="encoder-latency", id="C14", module="timing", seconds=0.7,
          title="an encoder reads in one pass, a decoder writes in one for each token"),
    Check(name="position-limit", id="C15", module="positions", seconds=0.2, models=("bert", "roberta", "gpt2"),
          title="a learned table refuses one token more than it has rows"),
    Check(name="causal-leakage", id="C16", module="attention", seconds=0.4, models=("gpt2", "llama", "bert", "t5"),
          title="no later token changes a causal state; every token changes a bidirectional one"),
    Check(name="chain-rule", id="C17", module="decoding", seconds=0.4, models=("gpt2", "llama", "t5"),
          title="probabilities sum to one, and a text's is the product of its words'"),
    Check(name="length-exponent", id="C18", module="timing", seconds=1,
          title="attention over all pairs grows as n², over a window as n"),
    Check(name="cls-token", id="C19", module="attention", seconds=0.2, models=("bert", "roberta"),
          title="[CLS] says nothing below the first layer and hears every token above"),
    Check(name="signal-density", id="C20", module="objectives", seconds=0.2,
          title="the share of tokens that each objective learns from"),
    Check(name="permutation-lm", id="C21", module="streams", seconds=0.2, models=("xlnet",),
          title="the mean over all orders is what a sample estimates"),
    Check(name="factorisation-order", id="C22", module="streams", seconds=0.1, models=("xlnet",),
          title="another order of prediction moves no position"),
    Check(name="appended-token", id="C23", module="attention", seconds=0.3, models=("bert", "gpt2", "t5"),
          title="one more token changes every encoder state and no causal one"),
    Check(name="loss-values", id="C24", module="objectives", seconds=0.1,
          title="losses on numbers worked out by hand"),
    Check(name="batch-norm", id="C25", module="norms", seconds=0.1,
          title="BatchNorm sees its neighbours, LayerNorm and RMSNorm do not"),
    Check(name="norm-placement", id="R6", module="norms", seconds=3,
          title="at first, post-norm keeps the last layer's gradient and pre-norm shrinks it with depth"),
    Check(name="cache-time", id="G6", module="timing", seconds=6,
          title="with a cache the work of writing grows as the text, without as its square"),
    Check(name="soft-targets", id="D3", module="objectives", seconds=0.1,
          title="temperature flattens and keeps the order; T² keeps the gradient"),
    Check(name="answer-attention", id="H8", module="answering", seconds=60,
          title="what writes an answer attends to it"),
)  # fmt: skip


def find(name: str) -> list[Check]:
    """The check of this name, or those of this mechanism's id.

    Raises:
        NotFound: there is none.
    """
    found = [check for check in CHECKS if name.lower() == check.name or name.upper() == check.id]
    if not found:
        remedy = nearest(name.lower(), [check.name for check in CHECKS]) or "variorum check --list names them"
        raise NotFound(f"no check is called {name!r}", remedy=remedy)
    return found


def chosen(names: Sequence[str]) -> list[Check]:
    """The checks that ``names`` mean, each once; all without any."""
    return list(dict.fromkeys(check for name in names for check in find(name))) if names else list(CHECKS)
