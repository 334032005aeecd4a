"""The ways of learning a vocabulary: texts in, the library's object or a SentencePiece model out.

Deterministic: equal texts in equal order give equal vocabularies. Where the engines would let a hash table decide, the
alphabet is given to them in code point order; the unigram trainer of the ``tokenizers`` library is not used, for no
order makes it repeat itself. Special tokens with the first ids are part of what is learned; the rest is
:mod:`variorum.text.train`.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import sentencepiece
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from ..errors import UsageError
from .likelihood import alphabet, learn
from .merges import WORD_END
from .published import MAX_WORD

_FEW_CHARACTERS = 1000  # up to here none is left out as rare, which is meant for scripts with thousands
_LONGEST_LINE = 2**24  # bytes; the trainer leaves longer lines out without a word


def folding(lower: bool, strip_accents: bool) -> list[normalizers.Normalizer]:
    """Case and accents as two switches, for vocabularies whose published form has neither."""
    accents = [normalizers.NFD(), normalizers.StripAccents()] if strip_accents else []
    return [*accents, *([normalizers.Lowercase()] if lower else [])]


def bert_words(lower: bool, strip_accents: bool) -> tokenizers.Tokenizer:
    """An object without a vocabulary that cuts texts into BERT's words."""
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip_accents)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def counted(cutter: tokenizers.Tokenizer, corpus: Iterable[str]) -> Counter[str]:
    """How often each word occurs, in code point order; words that would be unknown for their length are left out."""
    words: Counter[str] = Counter()
    for text in corpus:
        cut = cutter.pre_tokenizer.pre_tokenize_str(cutter.normalizer.normalize_str(text))
        words.update(word for word, _ in cut)
    return Counter({word: words[word] for word in sorted(words) if len(word) <= MAX_WORD})


class Rule(Protocol):
    """How pieces of words are chosen: the words and their counts, or the corpus and what cuts it, to a vocabulary."""

    def __call__(
        self, words: Counter[str], corpus: Sequence[str], size: int, start: Sequence[str], cutter: tokenizers.Tokenizer,
        min_count: int,
    ) -> list[str]: ...  # fmt: skip


def by_likelihood(
    words: Counter[str], corpus: Sequence[str], size: int, start: Sequence[str], cutter: tokenizers.Tokenizer,
    min_count: int,
) -> list[str]:  # fmt: skip
    """The paper's rule, :func:`~variorum.text.likelihood.learn`."""
    return learn(words, size, start, min_count=min_count)


def by_frequency(
    words: Counter[str], corpus: Sequence[str], size: int, start: Sequence[str], cutter: tokenizers.Tokenizer,
    min_count: int,
) -> list[str]:  # fmt: skip
    """The rule of the ``tokenizers`` library."""
    cutter.model = models.WordPiece(unk_token="[UNK]")
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(start), min_frequency=min_count, show_progress=False
    )
    cutter.train_from_iterator(corpus, trainer)
    vocab = cutter.get_vocab(with_added_tokens=False)
    return sorted(vocab, key=vocab.__getitem__)


def wordpiece(
    corpus: Sequence[str],
    size: int,
    first: Sequence[str],
    *,
    lower: bool,
    strip_accents: bool,
    min_count: int,
    rule: Rule,
) -> tokenizers.Tokenizer:
    """BERT's WordPiece, its pieces chosen by a rule."""
    cutter = bert_words(lower, strip_accents)
    words = counted(cutter, corpus)
    start = [*first, *(symbol for symbol in alphabet(words) if symbol not in first)]
    _check_room(size, len(start), f"{len(first)} specials and {len(start) - len(first)} characters")
    pieces = rule(words, corpus, size, start, cutter, min_count)
    vocab = {piece: id for id, piece in enumerate(pieces)}
    made = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD))
    made.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip_accents)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix="##")
    return made


def byte_bpe(
    corpus: Sequence[str], size: int, first: Sequence[str], *, fold: Sequence[normalizers.Normalizer], min_count: int
) -> tokenizers.Tokenizer:
    """GPT-2's byte-level BPE."""
    _check_room(size, 256 + len(first), f"256 bytes and {len(first)} specials")
    made = tokenizers.Tokenizer(models.BPE())
    if fold:
        made.normalizer = normalizers.Sequence(list(fold))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(first),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=min_count,
        show_progress=False,
    )
    made.train_from_iterator(corpus, trainer)
    return made


def word_bpe(
    corpus: Sequence[str], size: int, first: Sequence[str], *, lower: bool, strip_accents: bool, min_count: int
) -> tokenizers.Tokenizer:
    """GPT-1's BPE of words whose last piece carries ``</w>``."""
    made = bert_words(lower, strip_accents)
    words = counted(made, corpus)
    inner = sorted({char for word in words for char in word[:-1]})
    start = [*first, *inner, *sorted({f"{word[-1]}{WORD_END}" for word in words})]
    _check_room(size, len(start), f"{len(first)} specials and {len(start) - len(first)} characters")
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=start,
        end_of_word_suffix=WORD_END,
        min_frequency=min_count,
        show_progress=False,
    )
    made.model = models.BPE(unk_token=first[0], end_of_word_suffix=WORD_END)
    made.train_from_iterator(corpus, trainer)
    # A fresh object, for the trainer has made added tokens of the whole alphabet.
    fresh = tokenizers.Tokenizer(made.model)
    fresh.normalizer, fresh.pre_tokenizer = made.normalizer, made.pre_tokenizer
    fresh.decoder = decoders.BPEDecoder(suffix=WORD_END)
    return fresh


def sentencepiece_model(
    corpus: Iterable[str], size: int, kind: str, fold: Sequence[normalizers.Normalizer], options: Mapping[str, Any]
) -> bytes:
    """A ``.model`` file of SentencePiece's own trainer, on one thread: more of them give other scores."""
    _check_room(size, 4, "the model's own special tokens")
    folded = normalizers.Sequence(list(fold))
    lines = [folded.normalize_str(line) for text in corpus for line in text.split("\n") if line.strip()]
    few = len(set().union(*lines)) <= _FEW_CHARACTERS
    out = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(lines),
            character_coverage=1.0 if few else 0.9995,
            model_writer=out,
            model_type=kind,
            vocab_size=size,
            hard_vocab_limit=False,
            max_sentence_length=_LONGEST_LINE,
            num_threads=1,
            minloglevel=2,
            **options,
        )
    except (RuntimeError, OSError, ValueError) as error:
        lines_said = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(
            f"cannot learn {size} pieces of these texts ({lines_said[-1][-160:].strip()})", remedy="change the size"
        ) from None
    return out.getvalue()


def _check_room(size: int, floor: int, what: str) -> None:
    if size < floor:
        raise UsageError(f"vocab_size {size} is less than {what} ({floor})")
