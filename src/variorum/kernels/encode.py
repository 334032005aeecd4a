"""What an encoder does between its matrix products, over texts laid end to end: activations, residuals and norms, and
attention within each text.

Each function runs the loop of ``encode.c`` on float32 in the processor's memory where it was compiled, and its plain
form beside it everywhere else. No gradients.
"""

from __future__ import annotations

import ctypes
import dataclasses

import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.kernels.compiled import library
from variorum.kernels.products import address

#: Numbered as in vector.h.
ACTIVATIONS = ("nothing", "relu", "gelu", "gelu_tanh", "silu", "tanh")

_Pointer, _Int, _Float = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


def structure(name: str, **fields: str) -> type[ctypes.Structure]:
    """A C structure: kinds of fields and their names, in order."""
    kinds = {"pointers": _Pointer, "ints": _Int, "floats": _Float}
    listed = [(field, kinds[kind]) for kind, names in fields.items() for field in names.split()]
    return type(name, (ctypes.Structure,), {"_fields_": listed})


_Activation = structure("_Activation", pointers="gate gate_bias up up_bias", ints="rows width kind")
_Joint = structure(
    "_Joint", pointers="x y bias weight shift total normed", ints="rows width centred", floats="eps unit"
)
_Attention = structure(
    "_Attention",
    pointers="q k v out q_bias k_bias v_bias turn near starts",
    ints="texts heads kv_heads size q_stride k_stride v_stride out_stride pairs reach window",
    floats="scale",
)


def _loops(*tensors: Tensor | None) -> ctypes.CDLL | None:
    """The library, where all tensors are what it takes: float32 in the processor's memory, rows unbroken."""
    for tensor in tensors:
        if tensor is not None and (tensor.dtype != torch.float32 or tensor.is_cuda or tensor.stride(-1) != 1):
            return None
    return library("encode")


def activate(
    kind: str, gate: Tensor, bias: Tensor | None, up: Tensor | None = None, up_bias: Tensor | None = None
) -> Tensor:
    """f(gate + bias) · (up + up_bias) in place of ``gate``; [tokens, F], biases [F]. Without ``up`` that is 1."""
    loops = _loops(gate, bias, up, up_bias)
    if loops is None:
        return _activate(kind, gate, bias, up, up_bias)
    rows, width = gate.shape
    loops.activate_rows(ctypes.byref(_Activation(
        address(gate), address(bias), address(up), address(up_bias), rows, width, ACTIVATIONS.index(kind)
    )))  # fmt: skip
    return gate


_PLAIN = {
    "nothing": lambda x: x, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu, "tanh": torch.tanh,
}  # fmt: skip


def _activate(kind: str, gate: Tensor, bias: Tensor | None, up: Tensor | None, up_bias: Tensor | None) -> Tensor:
    made: Tensor = _PLAIN[kind](_plus(gate, bias))
    return made if up is None else made * _plus(up, up_bias)


def _plus(x: Tensor, y: Tensor | None) -> Tensor:
    return x if y is None else x + y


@dataclasses.dataclass(frozen=True)
class Norm:
    """norm(x) · (weight + unit) + shift over the last axis: LayerNorm where ``centred``, else RMSNorm."""

    weight: Tensor
    shift: Tensor | None
    eps: float
    centred: bool
    unit: float = 0.0


def join(x: Tensor, y: Tensor | None, bias: Tensor | None, norm: Norm | None, out: Tensor | None = None) -> Tensor:
    """norm(x + y + bias), [tokens, D]; what is ``None`` is left out. ``out`` is memory that may be used for it."""
    loops = _loops(x, y, bias, None if norm is None else norm.weight)
    if loops is None:
        total = _plus(x if y is None else x + y, bias)
        return total if norm is None else _normed(total, norm)
    out, (rows, width) = torch.empty_like(x) if out is None else out, x.shape
    x, y = x.contiguous(), None if y is None else y.contiguous()
    weight, shift = (None, None) if norm is None else (norm.weight, norm.shift)
    centred, eps, unit = (False, 0.0, 0.0) if norm is None else (norm.centred, norm.eps, norm.unit)
    loops.join_rows(ctypes.byref(_Joint(
        address(x), address(y), address(bias), address(weight), address(shift),
        address(out) if norm is None else None, None if norm is None else address(out), rows, width, centred, eps, unit
    )))  # fmt: skip
    return out


def _normed(x: Tensor, norm: Norm) -> Tensor:
    if norm.centred:
        return F.layer_norm(x, norm.weight.shape, norm.weight + norm.unit, norm.shift, norm.eps)
    scaled = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + norm.eps)
    return _plus(scaled * (norm.weight + norm.unit), norm.shift)


@dataclasses.dataclass(frozen=True)
class Heads:
    """How attention is cut into heads, and what is known of its scores.

    ``window``: keys further away than this are not seen; ``None`` shows all of the text.
    """

    heads: int
    kv_heads: int
    scale: float
    window: int | None = None


@dataclasses.dataclass(frozen=True)
class Texts:
    """Texts of a stream by their lengths."""

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        places = torch.tensor((0, *self.lengths)).cumsum(0)
        object.__setattr__(self, "starts", places)

    starts: Tensor = dataclasses.field(init=False, repr=False, compare=False)


@dataclasses.dataclass(frozen=True)
class Placement:
    """What positions add: ``turn`` [tokens, 2, pairs], cosines and sines by which channel i turns with i + pairs, and
    ``near`` [H, 2·reach + 1], added after the scale by key minus query, from -reach to reach."""

    turn: Tensor | None = None
    near: Tensor | None = None


Projected = tuple[Tensor, Tensor, Tensor]
Biases = tuple[Tensor | None, Tensor | None, Tensor | None]


def attend(
    projected: Projected, biases: Biases, heads: Heads, texts: Texts, placement: Placement, out: Tensor | None = None
) -> Tensor:
    """Queries [tokens, H·d], keys and values [tokens, KV·d] of a stream, mixed within each text -> [tokens, H·d].

    Biases are those of the three projections, not added yet. ``out`` is memory that may be used for the result.
    """
    turn, near = placement.turn, placement.near
    loops = _loops(*projected, *biases, turn, near)
    if loops is None:
        return _attend(projected, biases, heads, texts, placement)
    q, k, v = projected
    out = q.new_empty(q.shape) if out is None else out
    loops.attend_texts(ctypes.byref(_Attention(
        *map(address, (q, k, v, out)), *map(address, biases), address(turn), address(near), address(texts.starts),
        len(texts.lengths), heads.heads, heads.kv_heads, q.shape[1] // heads.heads,
        q.stride(0), k.stride(0), v.stride(0), out.stride(0), 0 if turn is None else turn.shape[-1],
        0 if near is None else near.shape[-1] // 2, -1 if heads.window is None else heads.window, heads.scale,
    )))  # fmt: skip
    return out


def _attend(projected: Projected, biases: Biases, heads: Heads, texts: Texts, placement: Placement) -> Tensor:
    q, k, v = (_plus(x, bias) for x, bias in zip(projected, biases, strict=True))
    q, k = (_turned(x.unflatten(-1, (n, -1)), placement.turn) for x, n in ((q, heads.heads), (k, heads.kv_heads)))
    v = v.unflatten(-1, (heads.kv_heads, -1))
    queries, keys, values = (x.transpose(0, 1).split(list(texts.lengths), 1) for x in (q, k, v))
    each = zip(queries, keys, values, strict=True)
    mixed = [_one_text(*text, heads=heads, near=placement.near) for text in each]
    return torch.cat(mixed, 1).transpose(0, 1).flatten(1)


def _one_text(q: Tensor, k: Tensor, v: Tensor, *, heads: Heads, near: Tensor | None) -> Tensor:
    """[H, T, d], [KV, T, d] twice -> [H, T, d]"""
    places = torch.arange(q.shape[1], device=q.device)
    apart = places[None, :] - places[:, None]
    added = None
    if near is not None:
        reach = near.shape[-1] // 2
        added = near[:, apart.clamp(-reach, reach) + reach][None]
    if heads.window is not None:
        unseen = apart.abs() > heads.window
        none = q.new_zeros(()) if added is None else added
        added = torch.where(unseen, -torch.inf, none).expand(1, heads.heads, -1, -1)
    grouped = heads.heads != heads.kv_heads
    return F.scaled_dot_product_attention(
        q[None], k[None], v[None], added, scale=heads.scale, enable_gqa=grouped
    )[0]  # fmt: skip


def _turned(x: Tensor, turn: Tensor | None) -> Tensor:
    """[tokens, H, d]"""
    if turn is None:
        return x
    cosine, sine = turn[:, None, 0], turn[:, None, 1]
    one, other, rest = x.split([turn.shape[-1], turn.shape[-1], x.shape[-1] - 2 * turn.shape[-1]], -1)
    return torch.cat((one * cosine - other * sine, other * cosine + one * sine, rest), -1)
