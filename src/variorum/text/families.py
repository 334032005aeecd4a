"""What each family puts around a vocabulary that is trained anew: special tokens, their ids, the wrapper, the files.

One entry per family, as data. Special tokens in ``first`` get ids from 0, those in ``last`` the ids after everything
that was learned, as in the published vocabularies. Families that publish a SentencePiece model are told by their
:mod:`~variorum.text.dialects` entry, which reads that model back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..errors import NotFound, nearest
from .dialects import ALBERT, DEBERTA_V2, LLAMA, MBART, PEGASUS, T5, XLM_R, XLNET, Dialect, WrapperEntry
from .merges import DEBERTA_ROLES, GPT2_ROLES, ROBERTA_ROLES
from .published import BERT_ROLES

Method = Literal["wordpiece", "wordpiece-by-frequency", "byte-bpe", "bpe", "unigram", "bytes"]
METHODS: Mapping[Method, str] = {
    "wordpiece": "BERT's: merges by likelihood, count(ab) / (count(a) · count(b))",
    "wordpiece-by-frequency": "the same use, merges by frequency, as the tokenizers library learns it",
    "byte-bpe": "GPT-2's: merges of bytes by frequency; no text is unknown",
    "bpe": "merges of characters by frequency; bytes stand for unknown ones",
    "unigram": "SentencePiece's: the likeliest segmentation under a pruned vocabulary",
    "bytes": "ByT5's: id = byte + 3, nothing to learn",
}


@dataclass(frozen=True, kw_only=True)
class Family:
    """Everything about a trained vocabulary but the vocabulary.

    Attributes:
        name: what it is called.
        methods: how its vocabulary may be learned, its own way first.
        roles: role to token.
        first: tokens with the first ids.
        last: tokens with the last ids.
        single: the wrapper of one text as (role or A or B, segment) entries; none if empty.
        pair: the wrapper of a pair.
        lower: whether it lower-cases unless told otherwise.
        class_name: the class under which ``transformers`` reads the directory to the same ids.
        dialect: how its SentencePiece model is read, for families that publish one.
        model_file: the name of that model's file.
        options: what SentencePiece's trainer is told besides (its flags).
        words: merges end words with ``</w>`` (GPT-1).
        trims: offsets leave the space out that a token begins with (RoBERTa).
    """

    name: str
    methods: tuple[Method, ...]
    roles: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    single: WrapperEntry = field(default_factory=list)
    pair: WrapperEntry = field(default_factory=list)
    lower: bool = False
    class_name: str = "PreTrainedTokenizerFast"
    dialect: Dialect | None = None
    model_file: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    words: bool = False
    trims: bool = False


_CLS: WrapperEntry = [("cls", 0), ("A", 0), ("sep", 0)]
_CLS_PAIR: WrapperEntry = [*_CLS, ("B", 1), ("sep", 1)]
_ROBERTA_PAIR: WrapperEntry = [*_CLS, ("sep", 0), ("B", 0), ("sep", 0)]
_PAD_FIRST = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}

FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="bert", methods=("wordpiece", "wordpiece-by-frequency"), roles=BERT_ROLES, lower=True,
            first=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), single=_CLS, pair=_CLS_PAIR,
            class_name="BertTokenizer",
        ),
        Family(
            name="roberta", methods=("byte-bpe",), roles=ROBERTA_ROLES, first=("<s>", "<pad>", "</s>", "<unk>"),
            last=("<mask>",), single=_CLS, pair=_ROBERTA_PAIR, trims=True,
        ),
        Family(
            name="deberta", methods=("byte-bpe",), roles=DEBERTA_ROLES, first=("[PAD]", "[CLS]", "[SEP]", "[UNK]"),
            last=("[MASK]",), single=_CLS, pair=_CLS_PAIR,
        ),
        Family(
            name="modernbert", methods=("byte-bpe",), roles=BERT_ROLES, single=_CLS, pair=[*_CLS, ("B", 0), ("sep", 0)],
            last=("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"),
        ),
        Family(name="gpt2", methods=("byte-bpe",), roles=GPT2_ROLES, last=("<|endoftext|>",)),
        Family(
            name="gpt-neox", methods=("byte-bpe",), roles={**GPT2_ROLES, "pad": "<|padding|>"},
            first=("<|endoftext|>", "<|padding|>"),
        ),
        Family(name="gpt", methods=("bpe",), roles={"unk": "<unk>"}, first=("<unk>",), lower=True, words=True),
        Family(
            name="t5", methods=("unigram",), dialect=T5, model_file="spiece.model", options=_PAD_FIRST,
        ),
        Family(
            name="pegasus", methods=("unigram",), dialect=PEGASUS, model_file="spiece.model", options=_PAD_FIRST,
        ),
        Family(
            name="albert", methods=("unigram",), dialect=ALBERT, model_file="spiece.model", lower=True,
            options={"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": "[CLS],[SEP],[MASK]"},
        ),
        Family(
            name="xlnet", methods=("unigram",), dialect=XLNET, model_file="spiece.model",
            options={"control_symbols": "<cls>,<sep>,<pad>,<mask>,<eod>", "user_defined_symbols": "<eop>"},
        ),
        Family(
            name="xlm-roberta", methods=("unigram",), dialect=XLM_R, model_file="sentencepiece.bpe.model",
        ),
        Family(
            name="mbart", methods=("unigram",), dialect=MBART, model_file="sentencepiece.bpe.model",
        ),
        Family(
            name="deberta-v3", methods=("unigram",), dialect=DEBERTA_V2, model_file="spm.model",
            options={"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "[PAD]", "bos_piece": "[CLS]",
                     "eos_piece": "[SEP]", "unk_piece": "[UNK]"},
        ),
        Family(
            name="llama", methods=("bpe",), dialect=LLAMA, model_file="tokenizer.model",
            options={"byte_fallback": True, "split_digits": True, "normalization_rule_name": "identity",
                     "remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True},
        ),
        Family(
            name="gemma", methods=("bpe",), dialect=LLAMA, model_file="tokenizer.model",
            options={"byte_fallback": True, "split_digits": True, "normalization_rule_name": "identity",
                     "remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True,
                     "add_dummy_prefix": False, "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3,
                     "bos_piece": "<bos>", "eos_piece": "<eos>"},
        ),
        Family(name="byt5", methods=("bytes",)),
    )
}  # fmt: skip
ALIASES = {
    "bart": "roberta", "longformer": "roberta", "electra": "bert", "distilbert": "bert", "mt5": "t5",
    "deberta-v2": "deberta-v3", "mistral": "llama", "gpt-1": "gpt", "gpt-2": "gpt2", "mpt": "gpt-neox",
}  # fmt: skip
USUAL: Mapping[Method, str] = {
    "wordpiece": "bert", "wordpiece-by-frequency": "bert", "byte-bpe": "gpt2", "bpe": "llama", "unigram": "t5",
    "bytes": "byt5",
}  # fmt: skip


def family_named(name: str) -> Family:
    """A family by its name or an alias.

    Raises:
        NotFound: nothing is trained here under this name.
    """
    key = ALIASES.get(name.lower(), name.lower())
    if key not in FAMILIES:
        known = [*FAMILIES, *ALIASES]
        raise NotFound(f"no family is called {name!r}", remedy=nearest(name, known) or f"one of {', '.join(FAMILIES)}")
    return FAMILIES[key]
