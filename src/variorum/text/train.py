"""Training small vocabularies from texts, through the ``tokenizers`` library.

Deterministic: equal texts in equal order give equal files. The library's WordPiece trainer merges by frequency, not by
the likelihood rule of the WordPiece paper, so it carries that in its name here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from ..errors import UsageError
from .document import wrapper_of
from .native import NativeEngine, add_tokens
from .published import BERT_ROLES, MAX_WORD
from .specials import Added
from .tokenizer import Kind, Tokenizer


def train_byte_level_bpe(texts: Iterable[str], vocab_size: int, specials: Sequence[str] = ()) -> Tokenizer:
    """GPT-2's byte-level BPE, learned from texts.

    Args:
        texts: the corpus, in any pieces.
        vocab_size: ids in all, specials and the 256 bytes included; fewer if the corpus has no more pairs to merge.
        specials: tokens that no text produces; they get the first ids, and the first one is the end of text.

    Raises:
        UsageError: the size does not hold the bytes and the specials.
    """
    floor = 256 + len(specials)
    if vocab_size < floor:
        raise UsageError(f"vocab_size {vocab_size} is less than 256 bytes and {len(specials)} specials ({floor})")
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(_checked(texts), trainer)
    roles = dict.fromkeys(("bos", "eos"), specials[0]) if specials else {}
    return _finished(backend, "byte_level_bpe", roles)


def train_wordpiece_by_frequency(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lower: bool = True,
    strip_accents: bool | None = None,
    specials: Sequence[str] = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
) -> Tokenizer:
    """A vocabulary for BERT's greedy WordPiece, learned by merging the most *frequent* pairs.

    Args:
        texts: the corpus, in any pieces.
        vocab_size: ids in all; fewer if the corpus has no more pairs to merge.
        lower: lower-case texts.
        strip_accents: drop accents; follows ``lower`` unless given.
        specials: first ids; must hold BERT's five.

    Raises:
        UsageError: a special token that BERT's wrapper needs is missing.
    """
    missing = [token for token in BERT_ROLES.values() if token not in specials]
    if missing:
        raise UsageError(f"specials lack {', '.join(missing)}")
    backend = tokenizers.Tokenizer(models.WordPiece(unk_token=BERT_ROLES["unk"]))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip_accents)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    corpus = list(_checked(texts))
    fixed = [*specials, *(piece for piece in _alphabet(backend, corpus) if piece not in specials)]
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=fixed, show_progress=False)
    backend.train_from_iterator(corpus, trainer)
    # A fresh object, for the trainer has made added tokens of the whole alphabet.
    vocab = backend.get_vocab(with_added_tokens=False)
    model = models.WordPiece(vocab, unk_token=BERT_ROLES["unk"], max_input_chars_per_word=MAX_WORD)
    parts = backend.normalizer, backend.pre_tokenizer, backend.decoder
    backend = tokenizers.Tokenizer(model)
    backend.normalizer, backend.pre_tokenizer, backend.decoder = parts
    backend.add_special_tokens(list(specials))
    cls, sep = (list(specials).index(BERT_ROLES[role]) for role in ("cls", "sep"))
    backend.post_processor = processors.BertProcessing((BERT_ROLES["sep"], sep), (BERT_ROLES["cls"], cls))
    settings = {"do_lower_case": lower, "strip_accents": strip_accents, "tokenizer_class": "BertTokenizer"}
    return _finished(backend, "wordpiece", BERT_ROLES, settings)


def _alphabet(backend: tokenizers.Tokenizer, texts: Iterable[str]) -> list[str]:
    """Every character, then every continuing character, in code point order.

    Left to itself the library numbers the continuing ones in the random order of a hash table, and ties between pairs
    are decided by those numbers: two runs would learn different vocabularies.
    """
    first: set[str] = set()
    later: set[str] = set()
    for text in texts:
        for word, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text)):
            first |= set(word)
            later |= set(word[1:])
    return [*sorted(first), *(f"##{char}" for char in sorted(later))]


def _checked(texts: Iterable[str]) -> Iterable[str]:
    for row, text in enumerate(texts):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError(f"lone surrogate at position {error.start} is not text", where=f"text {row}") from None
        yield text


def _finished(
    backend: tokenizers.Tokenizer, kind: Kind, roles: Mapping[str, str], settings: Mapping[str, object] | None = None
) -> Tokenizer:
    """With the files that the directory of this tokenizer will hold."""
    add_tokens(backend, [Added(content=token) for token in roles.values()], "training")
    document = backend.to_str(pretty=False)
    names = {f"{role}_token": token for role, token in roles.items()}
    default = {"tokenizer_class": "PreTrainedTokenizerFast"}
    config = json.dumps({**default, **(settings or {}), **names}, indent=2, ensure_ascii=False)
    files = {"tokenizer.json": document.encode(), "tokenizer_config.json": (config + "\n").encode()}
    wrapper = wrapper_of(json.loads(document), "training")
    engine = NativeEngine(backend, where="trained tokenizer")
    return Tokenizer(kind=kind, engine=engine, wrapper=wrapper, special=dict(roles), files=files)
