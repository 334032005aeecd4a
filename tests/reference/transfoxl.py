"""Transformer-XL as its paper and its release say it, for the tests alone: `transformers` no longer has the class.

Written pair by pair from the formulas (Dai et al. 2019, section 3.3): every query and key get their own distance, no
shift and no gathering. Names, configuration and the zeros that the first segment remembers are the release's. Beyond
it, padding is masked, and takes no place among the positions.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import torch
import transformers
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import ModelOutput


@strict
class TransfoXLConfig(PreTrainedConfig):
    model_type = "transfo-xl"
    attribute_map = {"hidden_size": "d_model", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}  # noqa: RUF012

    vocab_size: int = 267735
    cutoffs: list[int] | tuple[int, ...] = (20000, 40000, 200000)
    d_model: int = 1024
    d_embed: int = 1024
    n_head: int = 16
    d_head: int = 64
    d_inner: int = 4096
    div_val: int = 4
    pre_lnorm: bool = False
    n_layer: int = 18
    mem_len: int = 1600
    clamp_len: int = 1000
    same_length: bool = True
    proj_share_all_but_first: bool = True
    tie_projs: list[bool] | None = None
    attn_type: int = 0
    sample_softmax: int = -1
    adaptive: bool = True
    dropout: float = 0.1
    dropatt: float = 0.0
    untie_r: bool = True
    init_std: float = 0.02
    layer_norm_epsilon: float = 1e-5
    eos_token_id: int = 0
    tie_word_embeddings: bool = True

    @property
    def tied(self) -> list[bool]:
        """For each cluster, whether its output projection is its input projection."""
        if self.tie_projs is not None:
            return self.tie_projs
        return [False] + [self.proj_share_all_but_first] * len(self.cutoffs)

    @property
    def clusters(self) -> list[tuple[int, int, int]]:
        """First id, end and rank of each cluster."""
        ends = [0, *self.cutoffs, self.vocab_size]
        return [(a, b, self.d_embed // self.div_val**i) for i, (a, b) in enumerate(pairwise(ends))]


@dataclasses.dataclass
class Output(ModelOutput):
    """What each class returns."""

    logits: Tensor | None = None
    last_hidden_state: Tensor | None = None
    mems: list[Tensor] | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class Embedding(nn.Module):
    def __init__(self, config: TransfoXLConfig) -> None:
        super().__init__()
        self.config = config
        self.emb_layers = nn.ModuleList(nn.Embedding(end - begin, rank) for begin, end, rank in config.clusters)
        self.emb_projs = nn.ParameterList(torch.empty(config.d_model, rank) for *_, rank in config.clusters)

    def forward(self, ids: Tensor) -> Tensor:
        whole = [table.weight @ project.T for table, project in zip(self.emb_layers, self.emb_projs, strict=True)]
        return torch.cat(whole)[ids] * self.config.d_model**0.5


class Attention(nn.Module):
    def __init__(self, config: TransfoXLConfig) -> None:
        super().__init__()
        self.config, inner = config, config.n_head * config.d_head
        self.qkv_net = nn.Linear(config.d_model, 3 * inner, bias=False)
        self.o_net = nn.Linear(inner, config.d_model, bias=False)
        self.r_net = nn.Linear(config.d_model, inner, bias=False)
        self.r_w_bias = nn.Parameter(torch.empty(config.n_head, config.d_head))
        self.r_r_bias = nn.Parameter(torch.empty(config.n_head, config.d_head))
        self.layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_epsilon)

    def forward(self, x: Tensor, memory: Tensor, at: Tensor, real: Tensor) -> Tensor:
        """x [B, T, D], memory [B, M, D]; places [B, M + T] and which of them hold something."""
        config, length = self.config, x.shape[1]
        source = torch.cat((memory, x), 1)
        query, key, value = (
            part.unflatten(-1, (config.n_head, config.d_head)) for part in self.qkv_net(source).chunk(3, -1)
        )
        query = query[:, -length:]
        distance = at[:, -length:, None] - at[:, None, :]
        far = distance.clamp(max=config.clamp_len) if config.clamp_len > 0 else distance
        relative = self.r_net(waves(far.clamp(min=0), config.d_model, x.dtype)).unflatten(-1, (config.n_head, -1))
        content = torch.einsum("bihd,bjhd->bhij", query + self.r_w_bias, key)
        position = torch.einsum("bihd,bijhd->bhij", query + self.r_r_bias, relative)
        seen = (distance >= 0) & real[:, None, :]
        if config.same_length:
            seen &= distance < config.mem_len
        scores = (content + position) / config.d_head**0.5
        weights = scores.masked_fill(~seen[:, None], torch.finfo(x.dtype).min).softmax(-1)
        mixed = torch.einsum("bhij,bjhd->bihd", weights, value).flatten(-2)
        return self.layer_norm(x + self.o_net(mixed))


class FeedForward(nn.Module):
    def __init__(self, config: TransfoXLConfig) -> None:
        super().__init__()
        self.CoreNet = nn.Sequential(
            nn.Linear(config.d_model, config.d_inner),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.d_inner, config.d_model),
            nn.Dropout(config.dropout),
        )
        self.layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_epsilon)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer_norm(x + self.CoreNet(x))


class Layer(nn.Module):
    def __init__(self, config: TransfoXLConfig) -> None:
        super().__init__()
        self.dec_attn, self.pos_ff = Attention(config), FeedForward(config)

    def forward(self, x: Tensor, memory: Tensor, at: Tensor, real: Tensor) -> Tensor:
        return self.pos_ff(self.dec_attn(x, memory, at, real))


def waves(distance: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """All sines, then all cosines, of distance / 10,000^(2i/D)."""
    angles = distance[..., None].double() * 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.cat((angles.sin(), angles.cos()), -1).to(dtype)


class Base(PreTrainedModel):
    config_class = TransfoXLConfig
    base_model_prefix = "transformer"

    def _init_weights(self, module: nn.Module) -> None:
        for parameter in module.parameters(recurse=False):
            nn.init.normal_(parameter, 0.0, self.config.init_std)


class TransfoXLModel(Base):
    def __init__(self, config: TransfoXLConfig) -> None:
        super().__init__(config)
        self.word_emb = Embedding(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.n_layer))
        self.post_init()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, mems: list[Tensor] | None = None,
        use_mems: bool = True, output_hidden_states: bool = False,
    ) -> Output:  # fmt: skip
        x, config = self.word_emb(input_ids), self.config
        if mems is None:
            mems = [x.new_zeros(len(x), config.mem_len, config.d_model)] * config.n_layer
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        held = torch.cat((mask.new_ones(len(x), mems[0].shape[1]), mask), 1)
        at, states = held.cumsum(1) - 1, []
        for layer, memory in zip(self.layers, mems, strict=True):
            states.append(x)
            x = layer(x, memory, at, held.bool())
        kept = [torch.cat((old, new), 1)[:, -config.mem_len :].detach() for old, new in zip(mems, states, strict=True)]
        hidden = (*states, x) if output_hidden_states else None
        return Output(last_hidden_state=x, mems=kept if use_mems else None, hidden_states=hidden)


class Words(nn.Module):
    """The weights of the adaptive softmax that are not the input's."""

    def __init__(self, config: TransfoXLConfig) -> None:
        super().__init__()
        self.cluster_weight = nn.Parameter(torch.empty(len(config.cutoffs), config.d_embed))
        self.cluster_bias = nn.Parameter(torch.empty(len(config.cutoffs)))
        self.out_layers = nn.ModuleList(Rows(end - begin, rank, config) for begin, end, rank in config.clusters)
        own = [i for i, tied in enumerate(config.tied) if not (tied and config.tie_word_embeddings)]
        ranks = [rank for *_, rank in config.clusters]
        self.out_projs = nn.ParameterDict({str(i): torch.empty(config.d_model, ranks[i]) for i in own})


class Rows(nn.Module):
    def __init__(self, rows: int, rank: int, config: TransfoXLConfig) -> None:
        super().__init__()
        self.weight = None if config.tie_word_embeddings else nn.Parameter(torch.empty(rows, rank))
        self.bias = nn.Parameter(torch.empty(rows))


class TransfoXLLMHeadModel(Base):
    def __init__(self, config: TransfoXLConfig) -> None:
        super().__init__(config)
        self.transformer, self.crit = TransfoXLModel(config), Words(config)
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, mems: Any = None,
                use_mems: bool = True, output_hidden_states: bool = False) -> Output:  # fmt: skip
        out = self.transformer(input_ids, attention_mask, mems, use_mems, output_hidden_states)
        return Output(logits=self.scores(out.last_hidden_state), mems=out.mems, hidden_states=out.hidden_states)

    def scores(self, x: Tensor) -> Tensor:
        """log P(word): of the cluster's place among the frequent words, and of the word in the cluster."""
        words, parts = self.transformer.word_emb, []
        for i, rows in enumerate(self.crit.out_layers):
            project = self.crit.out_projs[str(i)] if str(i) in self.crit.out_projs else words.emb_projs[i]
            table, bias = words.emb_layers[i].weight if rows.weight is None else rows.weight, rows.bias
            if i == 0:
                table = torch.cat((table, self.crit.cluster_weight))
                bias = torch.cat((bias, self.crit.cluster_bias))
            parts.append((x @ project @ table.T + bias).log_softmax(-1))
        first = self.config.cutoffs[0]
        tails = [parts[0][..., first + i, None] + part for i, part in enumerate(parts[1:])]
        return torch.cat((parts[0][..., :first], *tails), -1)


class TransfoXLForSequenceClassification(Base):
    def __init__(self, config: TransfoXLConfig) -> None:
        super().__init__(config)
        self.transformer = TransfoXLModel(config)
        self.score = nn.Linear(config.d_model, config.num_labels, bias=False)
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, mems: Any = None,
                use_mems: bool = True, output_hidden_states: bool = False) -> Output:  # fmt: skip
        out = self.transformer(input_ids, attention_mask, mems, use_mems, output_hidden_states)
        places = torch.arange(input_ids.shape[1])
        last = (places if attention_mask is None else places * attention_mask).expand(len(input_ids), -1).amax(1)
        logits = self.score(out.last_hidden_state[torch.arange(len(input_ids)), last])
        return Output(logits=logits, mems=out.mems, hidden_states=out.hidden_states)


transformers.AutoConfig.register("transfo-xl", TransfoXLConfig)
