"""Specs at random: any part that a spec can name, in any place, with a wrong value now and then.

Nothing here knows what is legal. A seed gives one spec; `legal` and `illegal` draw until the rules agree.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from variorum.spec import architecture as a
from variorum.spec import attention as at
from variorum.spec import feedforward as ff
from variorum.spec import heads as h
from variorum.spec import inputs as i
from variorum.spec import norms as n
from variorum.spec import positions as p
from variorum.spec import rules
from variorum.spec.model import Model
from variorum.spec.recipe import Objective, Tokenizer
from variorum.spec.recurrent import Recurrent

T = TypeVar("T")
WIDTH, VOCAB, ROWS, END = 24, 40, 48, 39
#: An image of 6 × 6 pixels in patches of 2 makes ten vectors.
IMAGE, PATCH, BANDS = 6, 2, 5
ACTIVATIONS: tuple[ff.Activation, ...] = ff.Activation.__args__  # type: ignore[attr-defined]


class Draw:
    """Choices, of which a share of ``wrong`` are likely mistakes."""

    def __init__(self, seed: int | str, wrong: float = 0.01) -> None:
        self.rng, self.wrong = random.Random(seed), wrong
        self.knows_globals = False

    def of(self, *options: T) -> T:
        """Any of ``options``, all as likely."""
        return self.rng.choice(options)

    def maybe(self, make: Callable[[], T], share: float = 0.5) -> T | None:
        """What ``make`` makes, or nothing."""
        return make() if self.rng.random() < share else None

    def chance(self, share: float = 0.5) -> bool:
        return self.rng.random() < share

    def but(self, right: T, *wrong: Any) -> T:
        """``right``, seldom one of ``wrong``."""
        return self.rng.choice(wrong) if self.rng.random() < self.wrong else right

    def rate(self) -> float:
        return self.but(self.of(0.0, 0.1), 1.0, -0.1)

    def model(self) -> Model:
        """A whole spec."""
        self.knows_globals = False
        return Model(
            name="drawn",
            cite="nobody",
            architecture=self.architecture(),
            tokenizer=Tokenizer(kind="bpe"),
            objective=Objective(kind="causal_lm"),
        )

    def architecture(self) -> a.Architecture:
        if self.chance(0.06):
            return self.halves()
        kind = self.of("encoder", "decoder", "both")
        encoder = self.stack("encoder", beside=kind == "both") if kind != "decoder" else None
        decoder = self.stack("decoder", beside=kind == "both") if kind != "encoder" else None
        if decoder is not None and kind == "both" and self.chance(0.3):
            decoder = self.tied(decoder)
        main = decoder or encoder
        assert main is not None
        return a.Architecture(
            width=WIDTH,
            encoder=encoder,
            decoder=self.but(decoder, None, encoder),
            pooler=self.maybe(lambda: a.Pooler(activation=self.of(*ACTIVATIONS))),
            heads=self.heads("decoder" if decoder else "encoder", main.input, two=kind == "both"),
            init=a.Init(std=self.of(None, 0.02), residual=self.of("plain", "depth")),
        )

    def halves(self) -> a.Architecture:
        """A recurrent stack, where nothing attends."""
        words = i.TokenInput(
            vocab=VOCAB, rank=self.of(None, 8), positions=self.of(None, self.learned(), self.sinusoids()),
            scale=self.of(None, 2.0), norm=self.maybe(self.norm), query_vector=self.but(False, True),
            dropout=self.rate(),
        )  # fmt: skip
        table = "recurrent.input.table" if words.rank is None and self.chance() else None
        return a.Architecture(
            width=self.but(WIDTH, WIDTH + 1),
            encoder=self.but(None, self.stack("encoder", beside=False)),
            recurrent=Recurrent(
                input=words, depth=self.but(self.of(1, 2), 0), cells=self.of(None, 7), dropout=self.rate()
            ),
            pooler=self.maybe(a.Pooler),
            heads={
                "bidirectional_lm": self.but(h.TwoWayHead(tie=table, bias=self.chance()), h.VocabularyHead()),
                "sequence_classification": self.sequence(),
                "token_classification": self.token(3),
            },
        )

    def tied(self, decoder: a.Stack) -> a.Stack:
        """The same with the encoder's table, which need not fit."""
        if not isinstance(decoder.input, i.TokenInput):
            return decoder
        words = dataclasses.replace(decoder.input, tie="encoder.input.table", clusters=None, rank=None)
        return dataclasses.replace(decoder, input=words)

    # Stacks and what they read

    def stack(self, name: str, *, beside: bool) -> a.Stack:
        depth = self.but(self.of(1, 2, 2, 4), 0)
        mask: Literal["bidirectional", "causal"] = "causal" if name == "decoder" else "bidirectional"
        positions = self.positions()
        memory = self.of(0, 4) if isinstance(positions, p.RecurrentRelative) and not beside else self.but(0, 3)
        return a.Stack(
            input=self.input(name, beside=beside),
            depth=depth,
            block=self.block(name, beside=beside, positions=positions),
            pattern=self.pattern(positions),
            positions=positions,
            sharing=self.maybe(self.sharing, 0.15),
            inserts=self.inserts(causal=mask == "causal"),
            mask=self.but(mask, "bidirectional", "causal"),
            final_norm=self.maybe(self.norm, 0.7),
            memory=memory,
            first_memory=self.of("nothing", "zeros") if memory else self.but("nothing", "zeros"),
            dropout=self.rate(),
        )

    def input(self, name: str, *, beside: bool) -> i.AnyInput:
        reads = (
            self.of("words", "words", "words", "image", "sound") if name == "encoder" else self.but("words", "image")
        )
        if reads == "image":
            rows = self.but(10, 12)
            table = self.of(p.Learned(rows=rows), self.sinusoids(), None)
            return i.PatchInput(
                image=IMAGE, patch=self.but(PATCH, 4), channels=self.of(1, 3), positions=table, dropout=self.rate()
            )
        if reads == "sound":
            return i.MelInput(
                mels=BANDS, kernel=self.of(3, 5), activation=self.of("gelu", "relu"),
                positions=self.of(p.Learned(rows=ROWS), self.sinusoids(), None), dropout=self.rate(),
            )  # fmt: skip
        begins = self.of(0, 1, "last") if beside and name == "decoder" else None
        return i.TokenInput(
            vocab=self.but(VOCAB, 0),
            rank=self.of(None, None, 12),
            clusters=self.maybe(self.clusters, 0.15),
            segments=self.of(0, 0, 2),
            positions=self.of(None, None, self.learned(), self.sinusoids()),
            scale=self.of(None, WIDTH**0.5),
            norm=self.maybe(self.norm),
            pad_id=self.but(0, VOCAB, -1),
            pad_learns=self.chance(0.8),
            start_id=self.but(begins, None, VOCAB),
            query_vector=self.chance(0.2),
            dropout=self.rate(),
        )

    def clusters(self) -> i.Clusters:
        return i.Clusters(cutoffs=self.but((10, 25), (25, 10), (50,), ()), divide=self.but(2, 0, 30))

    def learned(self) -> p.Learned:
        rows, offset = self.but((ROWS, self.of(0, 2)), (2, 2))
        return p.Learned(rows=rows, offset=offset, count=self.of("mask", "ids"))

    def sinusoids(self) -> p.Sinusoidal:
        return p.Sinusoidal(base=self.of(1e3, 1e4), layout=self.of("interleaved", "halves"))

    def pattern(self, positions: p.AttentionPositions | None) -> tuple[a.At, ...]:
        if self.chance(0.7):
            return ()
        changes: list[Mapping[str, object]] = [
            {"attention.window": self.but(3, 0)},
            {"feedforward": self.feedforward()},
            {"layout": self.layout()},
            {"layout.attention": ()},
        ]
        if isinstance(positions, p.Rotary):
            changes.append({"positions.theta": 500.0})
        return (a.At(layers=self.but(self.of("0", "::2", ":1"), "9"), set=self.of(*changes)),)

    def sharing(self) -> a.Sharing:
        parts = self.of(("attention",), ("feedforward",), ("attention", "feedforward"))
        return a.Sharing(groups=self.but(1, 2, 9), inner=self.but(1, 2), parts=parts)

    def inserts(self, *, causal: bool) -> dict[int, a.Convolution]:
        if self.chance(1 - self.wrong if causal else 0.8):
            return {}
        conv = a.Convolution(
            kernel=self.but(3, 4), activation=self.of(*ACTIVATIONS), groups=self.but(self.of(1, 4), 7),
            norm=self.norm(), dropout=self.rate(),
        )  # fmt: skip
        return {self.but(0, 7): conv}

    # Blocks

    def block(self, name: str, *, beside: bool, positions: p.AttentionPositions | None) -> a.Block:
        crosses = self.but(beside and name == "decoder", True, False)
        relative = isinstance(positions, p.Disentangled | p.RecurrentRelative)
        return a.Block(
            attention=self.attention(name, relative=relative),
            cross=self.plain(grouped=True) if crosses else None,
            feedforward=self.feedforward(),
            layout=self.layout(),
            dropout=self.rate(),
        )

    def attention(self, name: str, *, relative: bool) -> at.AnyAttention:
        if self.chance(0.12) and not relative:
            return at.LatentAttention(
                heads=2, query_rank=self.of(None, 10), kv_rank=8, nope_dim=6, rope_dim=self.but(4, 3), value_dim=5,
                norm=self.norm(), scale=self.of(None, 0.3), bias=self.chance(), dropout=self.rate(),
                window=self.of(None, 4),
            )  # fmt: skip
        plain = self.plain(grouped=not relative)
        if self.chance(0.2 if name == "encoder" else self.wrong):
            self.knows_globals = True
            fields = {f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)}
            return at.GlobalLocalAttention(**fields)
        return plain

    def plain(self, *, grouped: bool) -> at.Attention:
        heads = self.of(2, 4, 6)
        shared = self.of(heads, 1, 2) if grouped else heads
        biased = tuple(one for one in at.ALL_PROJECTIONS if self.chance())
        return at.Attention(
            heads=heads, kv_heads=self.but(shared, 5, 0), head_dim=self.of(4, 6, 8), bias=biased,
            scale=self.of(None, 0.3), window=self.but(self.of(None, None, 1, 4), 0), qk_norm=self.maybe(self.norm, 0.2),
            softcap=self.but(self.of(None, None, 5.0), 0.0), clip=self.but(self.of(None, None, 1.5), -1.0),
            dropout=self.rate(),
        )  # fmt: skip

    def feedforward(self) -> ff.AnyFeedForward:
        act, kind = self.of(*ACTIVATIONS), self.of("two", "three", "many")
        if kind == "two":
            return ff.MLP(width=self.of(10, 16), activation=act, bias=self.chance(), dropout=self.rate())
        if kind == "three":
            return ff.GatedMLP(width=self.of(10, 16), activation=act, bias=self.chance(), dropout=self.rate())
        softmax = ff.SoftmaxRouter(normalise=self.chance(), balance=self.of(0.0, 0.01))
        sigmoid = ff.SigmoidRouter(
            groups=self.but(2, 3), active_groups=self.of(1, 2), normalise=self.chance(), scale=2.0
        )
        shared = self.of(0, 7)
        return ff.Experts(
            count=4, active=self.but(self.of(1, 2), 5), width=9, activation=act, router=self.of(softmax, sigmoid),
            shared_width=shared, shared_gate=bool(shared) and self.chance(),
        )  # fmt: skip

    def layout(self) -> a.Layout:
        norm = self.norm()
        normed = dataclasses.replace(self.but(a.pre(norm), a.post(norm), a.parallel(norm)), residual="normed")
        right = self.of(
            a.post(norm), a.pre(norm), a.sandwich(norm), a.parallel(norm), a.parallel(norm, shared=True), normed,
            self.scattered(norm, "serial", "before", "after", "join"),
            self.scattered(norm, "parallel", "before", "after"),
        )  # fmt: skip
        places = ("before", "after", "join", "shared")
        return self.but(right, *(self.scattered(norm, order, *places) for order in ("serial", "parallel")))

    def scattered(self, norm: n.Norm, order: Any, *places: Any) -> a.Layout:
        """Norms anywhere."""
        names = ("attention", "cross", "feedforward")
        drawn: dict[str, Any] = {name: tuple(one for one in places if self.chance()) for name in names}
        return a.Layout(norm=norm, order=order, **drawn)

    def norm(self) -> n.Norm:
        eps = self.of(1e-5, 1e-6)
        return self.of(n.LayerNorm(eps=eps, bias=self.chance()), n.RMSNorm(eps=eps, unit_offset=self.chance()))

    def positions(self) -> p.AttentionPositions | None:
        return self.of(*_SCHEMES)(self)

    def rotary(self) -> p.Rotary:
        return p.Rotary(
            theta=self.of(1e2, 1e4), fraction=self.but(self.of(1.0, 0.5), 0.1), interleaved=self.chance(),
            scaling=self.maybe(self.scaling, 0.8),
        )  # fmt: skip

    def scaling(self) -> p.RopeScaling:
        factor = self.but(4.0, 0.0, -2.0)
        return self.of(
            p.LinearScaling(factor=factor), p.NtkScaling(factor=factor),
            p.DynamicNtkScaling(factor=factor, original_length=6), p.YarnScaling(factor=factor, original_length=8),
            p.Llama3Scaling(factor=factor, original_length=8),
        )  # fmt: skip

    def buckets(self) -> p.RelativeBuckets:
        return p.RelativeBuckets(buckets=self.but(8, 7), max_distance=self.of(10, 20))

    def alibi(self) -> p.Alibi:
        return p.Alibi(max_bias=self.but(self.of(8.0, 16.0), 0.0), scaled=self.chance())

    def disentangled(self) -> p.Disentangled:
        cut = self.of(None, 4)
        return p.Disentangled(
            span=5, buckets=self.but(cut, 3), max_distance=10 if cut else None, projections=self.of("own", "shared"),
            terms=self.of(("c2p",), ("p2c",), ("c2p", "p2c")), key_bias=self.chance(), norm=self.maybe(self.norm),
        )  # fmt: skip

    def recurrent(self) -> p.RecurrentRelative:
        return p.RecurrentRelative(base=self.of(1e2, 1e4), segments=self.chance())

    # Heads

    def heads(self, main: str, words: i.AnyInput, *, two: bool) -> dict[str, h.Head]:
        found: dict[str, h.Head] = {
            "sequence_classification": self.sequence(),
            "token_classification": self.token(self.of(1, 3)),
            "question_answering": self.token(2),
        }
        if isinstance(words, i.PatchInput):
            return {"image_classification": self.sequence(), "embedding": self.embedding()}
        if main == "encoder":
            found["replaced_token"] = self.token(1)
            found["answer_span"] = h.SpanHead(norm=self.norm(), starts=self.of(1, 5), ends=self.of(2, 5))
        if main == "encoder" and (isinstance(words, i.TokenInput) or self.chance(6 * self.wrong)):
            found["multiple_choice"] = self.sequence(labels=self.but(1, 3))
        if not two or self.chance(self.wrong):
            found["embedding"] = self.embedding()
        if isinstance(words, i.TokenInput) or self.chance(self.wrong):
            name = "seq2seq_lm" if two else "causal_lm" if main == "decoder" else "masked_lm"
            found[name] = self.vocabulary(main, words)
        if self.chance(self.wrong):
            found["bidirectional_lm"] = h.TwoWayHead()
        return {name: head for name, head in found.items() if self.chance(0.7)} or {
            "sequence_classification": self.sequence()
        }

    def vocabulary(self, main: str, words: i.AnyInput) -> h.Head:
        table, clusters = f"{main}.input.table", getattr(words, "clusters", None)
        if (clusters is not None) != self.chance(self.wrong):
            return h.AdaptiveSoftmax(tie=self.of(None, table), tied_projections=self.of((), (1,)))
        rank = getattr(words, "rank", None)
        transform = self.maybe(lambda: self.transform(rank))
        fits = rank is None or (transform is not None and transform.width == rank)
        fields: dict[str, Any] = {
            "tie": self.but(table if fits and not getattr(words, "tie", None) and self.chance() else None, "nowhere"),
            "bias": self.chance(), "transform": transform, "scale": self.of(None, 0.5),
            "softcap": self.of(None, 9.0), "offset": self.chance(0.2),
        }  # fmt: skip
        late = getattr(words, "positions", None) is None
        if main == "encoder" and self.chance(0.7 if late else self.wrong):
            return h.EnhancedMaskDecoder(rows=ROWS, steps=self.of(1, 2), **fields)
        return h.VocabularyHead(**fields)

    def transform(self, width: int | None = None) -> h.Transform:
        return h.Transform(
            activation=self.of(*ACTIVATIONS), width=width or self.of(None, 11), norm=self.maybe(self.norm),
            bias=self.chance(),
        )  # fmt: skip

    def sequence(self, labels: int = 3) -> h.SequenceHead:
        take = self.of("pooler", "first", "last", "mean", "end")
        return h.SequenceHead(
            take=take, end_id=self.but(END, None, VOCAB) if take == "end" else None, labels=labels, bias=self.chance(),
            transform=self.maybe(self.transform, 0.3), transform_dropout=self.rate(), dropout=self.rate(),
            global_tokens=self.globals(), problem=self.but("single_label", "regression", "multi_label"),
        )  # fmt: skip

    def token(self, labels: int) -> h.TokenHead:
        return h.TokenHead(
            labels=labels, bias=self.chance(), context=self.maybe(self.norm, 0.2),
            transform=self.maybe(self.transform, 0.3), global_tokens=self.globals(), dropout=self.rate(),
        )  # fmt: skip

    def globals(self) -> h.GlobalTokens | None:
        beside = h.BesideSeparator(side=self.of("before", "after"), separator=self.but(2, VOCAB))
        return self.maybe(lambda: self.of(h.FirstToken(), beside), 0.5 if self.knows_globals else self.wrong)

    def embedding(self) -> h.EmbeddingHead:
        return h.EmbeddingHead(take=self.of("first", "last", "mean", "max"), normalise=self.chance())


_SCHEMES: tuple[Callable[[Draw], p.AttentionPositions | None], ...] = (
    lambda draw: None, Draw.rotary, Draw.rotary, Draw.buckets, Draw.alibi, Draw.disentangled, Draw.recurrent,
)  # fmt: skip


def legal(seed: int) -> Model:
    """The first spec of this seed that the rules let anyone build."""
    return _first(Draw(f"legal {seed}"), lambda found: not found)


def illegal(seed: int) -> Model:
    """The first spec of this seed that they do not."""
    return _first(Draw(f"illegal {seed}", wrong=0.05), bool)


def _first(draw: Draw, wanted: Callable[[list[rules.Problem]], bool]) -> Model:
    while True:
        model = draw.model()
        if wanted(rules.problems(model, rules.BUILD)):
            return model


__all__ = ["Draw", "illegal", "legal"]
