"""The feed-forward parts a spec can name: two matrices, three matrices, or many experts."""

from __future__ import annotations

from typing import Literal

from variorum.spec.part import Part, part, seen

#: "gelu_megatron" is "gelu_tanh" with sqrt(2/pi) cut to eight digits, as in Megatron's fused kernel and BLOOM.
Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "tanh", "gelu_megatron"]


@part
class MLP(Part):
    """down(activation(up(x))) (Vaswani et al. 2017)."""

    width: int = seen(by="load")
    activation: Activation = seen(by="forward")
    bias: bool = seen(by="load", default=True)
    dropout: float = seen(by="training", default=0.0)


@part
class GatedMLP(Part):
    """down(activation(gate(x)) * up(x)): GeGLU, SwiGLU and kin (Shazeer 2020)."""

    width: int = seen(by="load")
    activation: Activation = seen(by="forward")
    bias: bool = seen(by="load", default=False)
    dropout: float = seen(by="training", default=0.0)


@part
class SoftmaxRouter(Part):
    """Experts weighted by a softmax over all experts, the chosen ones renormalised when ``normalise`` is set.

    ``balance`` is the weight of the load-balancing loss (Fedus et al. 2021).
    """

    normalise: bool = seen(by="forward", default=True)
    balance: float = seen(by="loss", default=0.0)


@part
class SigmoidRouter(Part):
    """DeepSeek-V3's router: sigmoid affinities; a bias picks the experts but does not weight them.

    Experts lie in ``groups``; the best ``active_groups`` stay, each scored by the sum of its two best experts.
    Weights are renormalised when ``normalise`` is set, then multiplied by ``scale``.
    """

    groups: int = seen(by="forward", default=1)
    active_groups: int = seen(by="forward", default=1)
    normalise: bool = seen(by="forward", default=True)
    scale: float = seen(by="forward", default=1.0)


@part
class Experts(Part):
    """``count`` gated MLPs of ``width``, of which a router picks ``active`` per token.

    ``shared_width`` > 0 adds one gated MLP that every token passes (DeepSeek); ``shared_gate`` weights it by a
    sigmoid of the token (Qwen2-MoE).
    """

    count: int = seen(by="load")
    active: int = seen(by="forward")
    width: int = seen(by="load")
    activation: Activation = seen(by="forward")
    router: SoftmaxRouter | SigmoidRouter = seen(by="load")
    shared_width: int = seen(by="load", default=0)
    shared_gate: bool = seen(by="load", default=False)


AnyFeedForward = MLP | GatedMLP | Experts
