"""Spec in, ``nn.Module`` out. This file knows no model by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from variorum.attention.cache import Cache
from variorum.attention.output import Output
from variorum.attention.packed import apart, each
from variorum.attention.reading import Reading, shifted
from variorum.attention.stack import Stack
from variorum.attention.two_stream import streams
from variorum.errors import NotFound, UsageError, nearest
from variorum.parts.clusters import AdaptiveSoftmax
from variorum.parts.experts import balance_loss
from variorum.parts.heads import (
    EmbeddingHead,
    EnhancedMaskDecoder,
    Pooler,
    SequenceHead,
    TokenHead,
    TwoWayHead,
    VocabularyHead,
    at_ends,
    build_head,
    first_real,
    head_loss,
    kept,
)
from variorum.parts.recurrent import Recurrent
from variorum.parts.spans import SpanHead
from variorum.parts.trace import Trace
from variorum.parts.where import Where, order_from_mask
from variorum.spec.feedforward import Experts, SoftmaxRouter
from variorum.spec.inputs import TokenInput
from variorum.spec.inventory import constants, tensors, tied, wants_pooler
from variorum.spec.model import Model as ModelSpec


class Model(nn.Module):
    """A built model. ``spec`` says what it is; ``heads`` which heads it carries.

    Raises:
        NotFound: a head that the spec does not have.
    """

    def __init__(self, model: ModelSpec, heads: Sequence[str] = ()) -> None:
        super().__init__()
        arch = model.architecture
        for name in heads:
            if name not in arch.heads:
                raise NotFound(
                    f"{model.name} has no head {name!r}",
                    remedy=nearest(name, arch.heads) or f"it has {', '.join(arch.heads)}",
                )
        self.spec, self.head_names, self.backend = model, tuple(heads), "auto"
        self.tokenizer: Any = None
        self.label_names: tuple[str, ...] = ()  # of the classes of its heads, where somebody named them
        self.holds_codes = False  # some weights are int8, and no parameters
        self.origin: Any = None
        if arch.encoder is not None:
            self.encoder = Stack(arch.encoder, arch.width)
        if arch.decoder is not None:
            self.decoder = Stack(arch.decoder, arch.width)
        if arch.recurrent is not None:
            self.recurrent = Recurrent(arch.recurrent, arch.width)
        if arch.pooler is not None and wants_pooler(arch, heads):
            self.pooler = Pooler(arch.pooler, arch.width)
        words = getattr(arch.main, "input", None)
        words = words if isinstance(words, TokenInput) else None
        self.heads = nn.ModuleDict({
            name: build_head(arch.heads[name], arch.width, arch.vocab, words) for name in heads
        })  # fmt: skip
        self.bind()

    def bind(self) -> None:
        """Make shared layers share and tied tables one tensor; call after parameters are replaced."""
        arch = self.spec.architecture
        for name, stack in arch.stacks.items():
            getattr(self, name).share()
            tie = getattr(stack.input, "tie", None)
            if tie is not None:
                self.get_submodule(f"{name}.input.table").register_parameter("weight", self._table(tie))
        for name, head in self.heads.items():
            for own, owner in tied(arch.heads[name], arch.main).items():
                part, _, leaf = own.rpartition(".")
                head.get_submodule(part).register_parameter(leaf, self.get_parameter(owner))

    def _table(self, path: str) -> nn.Parameter:
        return self.get_parameter(f"{path}.weight")

    def named_tensors(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Every trained tensor once, by canonical name, in the inventory's order."""
        for name in tensors(self.spec.architecture, self.head_names):
            yield name, self.get_parameter(name)

    @property
    def _reads(self) -> str:
        """What its first stack reads."""
        return self.spec.architecture.source.reads

    def named_constants(self) -> Iterator[tuple[str, Tensor]]:
        """What is kept with the weights but never trained, by canonical name."""
        for name in constants(self.spec.architecture, self.head_names):
            yield name, self.get_buffer(name)

    @property
    def is_decoder(self) -> bool:
        """Whether it writes left to right."""
        return self.spec.architecture.decoder is not None

    @property
    def packs(self) -> bool:
        """Whether it reads texts end to end; see ``lengths`` of :meth:`forward`."""
        first = next(iter(self.spec.architecture.stacks), "recurrent")
        return bool(getattr(self, first).packs)

    def forward(
        self, input_ids: Tensor | None = None, *, inputs_embeds: Tensor | None = None,
        input_features: Tensor | None = None, pixel_values: Tensor | None = None,
        attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None, global_attention_mask: Tensor | None = None,
        perm_mask: Tensor | None = None, target_mapping: Tensor | None = None,
        memory: list[Tensor] | None = None, decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None, labels: Tensor | None = None, cache: Cache | None = None,
        output_hidden_states: bool = False, output_attentions: bool = False, output_routing: bool = False,
        logits_to_keep: int | Tensor = 0, lengths: Sequence[int] | None = None, targets: Tensor | None = None,
        prefix_lengths: Tensor | None = None,
    ) -> Output:  # fmt: skip
        """Run the model.

        Args:
            input_ids: int64 [B, T], or ``inputs_embeds`` [B, T, rank]; multiple_choice reads [B, C, T].
            input_features: log-mel spectrograms [B, mels, frames]; pixel_values: images [B, channels, side, side];
                for models that read these instead of ids.
            attention_mask: 1 at real tokens, [B, T]; also left-padded. Positions follow it unless given.
            token_type_ids: segments [B, T].
            global_attention_mask: 1 at tokens that see all and are seen by all, [B, T]; the head's own if absent.
            perm_mask: 1 where token i may not see token j, [B, T, T]; with ``target_mapping`` [B, P, T] the query
                stream predicts P positions.
            memory: the previous segment's ``Output.memory``, M states for each layer. ``attention_mask`` may be
                [B, M + T] then, and say which of them are real.
            labels: targets; see :func:`~variorum.parts.heads.head_loss`.
            logits_to_keep: score only the last so many positions (0: all), or those marked in [B, T], whose scores come
                as [N, V]; the vocabulary is wide.
            targets: for the first head, over a vocabulary: the token that each state is asked for, int64 [B, T] or
                [B, P], -100 where nothing is asked. ``Output.loss`` is the *sum* of their losses, and no score of them
                is kept. An encoder-decoder without decoder_input_ids reads them one step late.
            prefix_lengths: int64 [B]; so many of a row's first tokens are seen from both sides, in a decoder alone.
            lengths: of texts laid end to end in one row without padding, [1, sum(lengths)]. States and scores of
                tokens come back so; sequence heads give a row for each text.
            cache: a :class:`Cache` to continue; new tokens only in ``input_ids`` (or ``decoder_input_ids``).

        Raises:
            UsageError: an input that this spec does not take, or a text longer than it takes.
        """
        arch = self.spec.architecture
        choices = self._choices(input_ids, inputs_embeds)
        if choices is not None:
            input_ids, inputs_embeds, attention_mask, token_type_ids, position_ids, global_attention_mask = (
                None if given is None else given.flatten(0, 1)
                for given in (input_ids, inputs_embeds, attention_mask, token_type_ids, position_ids,
                              global_attention_mask)
            )  # fmt: skip
        self._refuse(token_type_ids=token_type_ids, perm_mask=perm_mask, target_mapping=target_mapping, memory=memory,
                     decoder_input_ids=decoder_input_ids, decoder_attention_mask=decoder_attention_mask,
                     global_attention_mask=global_attention_mask, prefix_lengths=prefix_lengths,
                     input_ids=input_ids, input_features=input_features, pixel_values=pixel_values)  # fmt: skip
        read = {"input_ids": input_ids, "input_features": input_features, "pixel_values": pixel_values}[self._reads]
        if cache is not None and (arch.recurrent is not None or arch.main.memory):
            raise UsageError(f"{self.spec.name} remembers states, not keys", remedy="give memory in place of cache")
        routed = output_routing or labels is not None or targets is not None
        trace = self._trace(output_hidden_states, output_attentions, routed)
        reading = Reading(
            data=read, vectors=inputs_embeds, mask=attention_mask, positions=position_ids, segments=token_type_ids,
            everywhere=global_attention_mask, lengths=None if lengths is None else tuple(lengths),
            prefix=prefix_lengths,
        )  # fmt: skip
        if lengths is not None:
            apart_from = output_attentions, memory, perm_mask is not None, prefix_lengths is not None
            self._check_stream(reading, alone=not any(apart_from))
        encoded: Tensor | None = None
        memory_out = None
        if arch.recurrent is not None:
            x, new = self._recur(reading, trace)
        elif arch.encoder is None:
            x, new, memory_out = self._write(reading, trace, cache=cache, memory=memory)
        elif cache is not None and cache.encoded is not None:
            encoded, order = cache.encoded, cache.encoded_order
        else:
            x, new, memory_out = self._encode(
                reading, trace, perm_mask=perm_mask, targets=target_mapping, memory=memory
            )  # fmt: skip
            encoded, order = (x, new.k_order) if reading.lengths is None else apart(x, reading.lengths)
            if cache is not None:
                cache.encoded, cache.encoded_order = encoded, order
        if arch.decoder is not None and encoded is not None:
            ids, mask = decoder_input_ids, decoder_attention_mask
            if ids is None:
                # Heads that read the decoder see the text itself, one step late.
                writes = "seq2seq_lm" in self.head_names
                mask = mask if writes else attention_mask
                written = labels if targets is None else targets
                ids = shifted(arch.main.tokens, written if writes else input_ids, mask)
            routing, trace = trace.routing, self._trace(output_hidden_states, output_attentions, routed)
            trace.routing = routing
            x, new, _ = self._write(Reading(data=ids, mask=mask), trace, encoded=encoded, order=order, cache=cache)
        out = Output(
            x, hidden_states=trace.hidden_states, attentions=trace.attentions, cache=cache, memory=memory_out,
            cross_attentions=trace.cross_attentions, routing=trace.routing if output_routing else None,
            encoder_last_hidden_state=encoded if arch.decoder is not None else None,
        )  # fmt: skip
        return self._scored(out, new, trace, input_ids, labels, logits_to_keep, choices, targets)

    def read(self, reading: Reading) -> tuple[Tensor, Where]:
        """Last states [B, T, D] of what is read, of an encoder-decoder those of its encoder, and where they stand."""
        if reading.lengths is not None:
            self._check_stream(reading, alone=True)
        if self.spec.architecture.recurrent is not None:
            return self._recur(reading, Trace())
        if self.spec.architecture.encoder is None:
            return self._write(reading, Trace())[:2]
        return self._encode(reading, Trace(), perm_mask=None, targets=None, memory=None)[:2]

    def _check_stream(self, reading: Reading, *, alone: bool) -> None:
        read = reading.data if reading.vectors is None else reading.vectors
        if not alone or reading.mask is not None or not self.packs:
            raise UsageError(
                "texts laid end to end take no mask, memory, permutation or maps", remedy="give them padded"
            )
        assert reading.lengths is not None
        if read is not None and (read.shape[0], read.shape[1]) != (1, sum(reading.lengths)):
            raise UsageError(
                f"texts of {sum(reading.lengths):,} tokens in an input of {list(read.shape[:2])}",
                remedy="give them in one row, [1, sum(lengths)]",
            )

    def _choices(self, ids: Tensor | None, embeds: Tensor | None) -> int | None:
        """How many texts each question has to choose from; ``None`` where nothing is chosen."""
        given = ids if embeds is None else embeds[..., 0]
        chooses = "multiple_choice" in self.head_names
        if given is None or (given.dim() == 3) == chooses:
            return given.shape[1] if given is not None and chooses else None
        takes = "[B, C, T], each choice a text" if chooses else "[B, T]; only multiple_choice reads [B, C, T]"
        raise UsageError(f"inputs measure {list(given.shape)}", remedy=f"give {takes}")

    def _scored(
        self, out: Output, new: Where, trace: Trace, ids: Tensor | None, labels: Tensor | None, keep: int | Tensor,
        choices: int | None, targets: Tensor | None,
    ) -> Output:  # fmt: skip
        """``out`` with pooled vector, logits of every head, and the first head's loss."""
        x = out.last_hidden_state
        rows, order = (x, new.q_order) if new.lengths is None else apart(x, new.lengths)
        if hasattr(self, "pooler"):
            out.pooled = self.pooler(first_real(rows, order))
        for name, head in self.heads.items():
            if isinstance(head, SequenceHead):
                end = head.spec.end_id if head.spec.take == "end" else None
                scores = head(rows, order if end is None else at_ends(ids, end, order), out.pooled)
                out.logits_by_head[name] = scores.view(-1, choices) if name == "multiple_choice" else scores
            elif isinstance(head, TwoWayHead):
                out.logits_by_head[name] = kept(head(trace.top), keep)
            elif isinstance(head, SpanHead):
                out.logits_by_head[name], out.answers = head(x, new.q_order)
                out.start_logits = out.logits_by_head[name]
            elif isinstance(head, EmbeddingHead):
                out.logits_by_head[name] = head(rows, order)
            elif isinstance(head, TokenHead):
                logits = (
                    head(x, new.q_order)
                    if new.lengths is None
                    else each(new, lambda near, text, head=head: head(text, near.q_order), x)
                )
                logits = kept(logits, keep)
                out.logits_by_head[name] = logits.squeeze(-1) if name == "replaced_token" else logits
            elif name == self.head_names[0] and targets is not None:
                asked, states = targets != -100, self._enhanced(head, x, new, trace)
                smoothing = self.spec.objective.label_smoothing if self.training else 0.0
                assert isinstance(head, VocabularyHead | AdaptiveSoftmax)
                out.loss = head.summed_loss(states[asked], targets[asked], smoothing)
            elif not (name == self.head_names[0] and labels is not None and isinstance(head, AdaptiveSoftmax)):
                out.logits_by_head[name] = head(kept(self._enhanced(head, x, new, trace), keep))
        if not self.head_names:
            return out
        main = self.head_names[0]
        out.logits = out.logits_by_head.get(main)
        if main == "question_answering" and out.logits is not None:
            out.start_logits, out.end_logits = out.logits.unbind(-1)
        real = (new.q_order >= 0).expand(len(x), -1)
        if targets is not None:
            if out.loss is None:
                raise UsageError(f"{main} scores no vocabulary", remedy="give labels in place of targets")
            out.loss = out.loss + self._balance(trace, real) * (targets != -100).sum()
        elif labels is not None:
            out.loss = self._loss(out, labels, real, new.q_order) + self._balance(trace, real)
        return out

    def _loss(self, out: Output, labels: Tensor, real: Tensor, order: Tensor) -> Tensor:
        main, judge = self.head_names[0], self.heads[self.head_names[0]]
        if isinstance(judge, SpanHead):
            return judge.loss(out.last_hidden_state, order, labels)
        if isinstance(judge, AdaptiveSoftmax):
            x, next_ones = out.last_hidden_state, main == "causal_lm"
            x, labels = (x[:, :-1], labels[:, 1:]) if next_ones else (x, labels)
            return judge.loss(x.flatten(0, 1), labels.flatten())
        assert out.logits is not None
        problem = judge.spec.problem if isinstance(judge, SequenceHead) else "single_label"
        words = isinstance(judge, VocabularyHead) and self.training
        smoothing = self.spec.objective.label_smoothing if words else 0.0
        return head_loss(main, out.logits, labels, real, problem=problem, smoothing=smoothing)

    def _enhanced(self, head: nn.Module, x: Tensor, where: Where, trace: Trace) -> Tensor:
        """What a vocabulary head reads: the last states, or those of the last layer run again with positions."""
        if not isinstance(head, EnhancedMaskDecoder) or trace.below is None:
            return x
        asked = head.asked(trace.below, where.q_positions)
        return self.encoder.again(asked, where, trace, head.steps, self.backend)

    def _balance(self, trace: Trace, real: Tensor) -> Tensor | float:
        if not trace.routing:
            return 0.0
        block = self.spec.architecture.main.block.feedforward
        if not isinstance(block, Experts) or not isinstance(block.router, SoftmaxRouter):
            return 0.0
        return block.router.balance * balance_loss(trace.routing, real.reshape(-1))

    def _trace(self, hidden: bool, maps: bool, routed: bool) -> Trace:
        cross = maps and self.spec.architecture.encoder is not None and self.is_decoder
        return Trace(
            hidden_states=[] if hidden else None,
            attentions=[] if maps else None,
            cross_attentions=[] if cross else None,
            routing=[] if routed else None,
        )

    def _refuse(self, **given: object) -> None:
        arch = self.spec.architecture
        encoder = arch.encoder
        two_stream = getattr(getattr(encoder, "input", None), "query_vector", False)
        relative_segments = getattr(getattr(encoder, "positions", None), "segments", False)
        takes = {
            "token_type_ids": relative_segments or getattr(getattr(encoder, "input", None), "segments", 0) > 0,
            "global_attention_mask": encoder is not None and encoder.has_globals,
            "perm_mask": two_stream,
            "target_mapping": two_stream,
            "memory": two_stream or bool(getattr(arch.main, "memory", 0)),
            "decoder_input_ids": encoder is not None and arch.decoder is not None,
            "decoder_attention_mask": encoder is not None and arch.decoder is not None,
            "prefix_lengths": arch.decoder is not None and encoder is None,
        }
        for name, value in given.items():
            if value is not None and not takes.get(name, name == self._reads):
                raise UsageError(f"{self.spec.name} takes no {name}", remedy="leave it out")

    def _recur(self, reading: Reading, trace: Trace) -> tuple[Tensor, Where]:
        """The text from both ends: mixed states [B, T, D], and where they stand."""
        vectors = self._vectors(self.recurrent, reading)
        order = order_from_mask(reading.mask, vectors.shape[1], vectors.device)
        at = order if reading.positions is None else reading.positions
        where = Where(at, at, order, order, padded=reading.mask is not None)
        return self.recurrent(vectors, where, trace), where

    def _vectors(self, stack: Stack | Recurrent, reading: Reading) -> Tensor:
        if reading.data is not None and reading.vectors is None:
            return stack.input.look(reading.data)
        if reading.vectors is not None and reading.data is None:
            return reading.vectors
        raise UsageError(
            "a model needs something to read", remedy=f"give {stack.spec.input.reads} or inputs_embeds, not both"
        )

    def _write(
        self, reading: Reading, trace: Trace, *, encoded: Tensor | None = None, order: Tensor | None = None,
        cache: Cache | None = None, memory: list[Tensor] | None = None,
    ) -> tuple[Tensor, Where, list[Tensor] | None]:  # fmt: skip
        """The decoder, on its own or over ``encoded`` [B, S, D] whose slots stand at ``order`` [B or 1, S]."""
        stack = self.spec.architecture.decoder
        assert stack is not None
        vectors = self._vectors(self.decoder, reading)
        if cache is not None:
            texts = len(vectors) if reading.lengths is None else len(reading.lengths)
            cache.bind(stack, self.spec.name, vectors.device, texts)
        new = reading.where(stack, vectors, cache)
        cross = None if order is None else Where(new.q_positions, order, new.q_order, order)
        x, kept = self.decoder(
            vectors, new, trace, encoded=encoded, cross_where=cross, cache=cache, memory=memory,
            memory_order=reading.remembered, backend=self.backend,
        )  # fmt: skip
        return x, new, kept

    def _encode(
        self, reading: Reading, trace: Trace, *, perm_mask: Tensor | None, targets: Tensor | None,
        memory: list[Tensor] | None,
    ) -> tuple[Tensor, Where, list[Tensor] | None]:  # fmt: skip
        stack = self.spec.architecture.encoder
        assert stack is not None
        vectors = self._vectors(self.encoder, reading)
        head = self.spec.architecture.heads[self.head_names[0]] if self.head_names else None
        where, query = reading.where(stack, vectors, head=head), None
        content = where
        if perm_mask is not None or targets is not None:
            start = self.get_parameter("encoder.input.query_vector")
            content, query = streams(where, perm_mask, targets, start, len(vectors))
        x, kept = self.encoder(
            vectors, content, trace, segments=reading.segments, memory=memory, memory_order=reading.remembered,
            backend=self.backend, query=query,
        )  # fmt: skip
        return x, where, kept


__all__ = ["Model", "Output"]
