"""Vocabularies that both sides load: trained once per session, and the published files where they were fetched."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
import tokenizers

from tests.text.strings import corpus, varied_strings
from tests.tools import weights

BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="session")
def strings() -> list[str]:
    return varied_strings(20_000)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Directory of a vocabulary by name; each is trained when first asked for."""
    root = tmp_path_factory.mktemp("vocabularies")
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            directory = root / name
            directory.mkdir()
            MAKERS[name](directory)
            made[name] = directory
        return made[name]

    return get


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def _wordpiece(directory: Path, **settings: object) -> None:
    trainer = tokenizers.BertWordPieceTokenizer(
        lowercase=bool(settings["do_lower_case"]), strip_accents=settings.get("strip_accents")
    )
    trainer.train_from_iterator(corpus(), vocab_size=1500, special_tokens=BERT_SPECIALS, show_progress=False)
    trainer.save_model(str(directory))
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", **settings})


def _byte_level(directory: Path, specials: list[str], **settings: object) -> None:
    trainer = tokenizers.ByteLevelBPETokenizer()
    trainer.train_from_iterator(corpus(), vocab_size=1500, special_tokens=specials, show_progress=False)
    trainer.save_model(str(directory))
    write_json(directory / "tokenizer_config.json", settings)


def _pieces(directory: Path, file: str, settings: dict[str, object], **options: object) -> None:
    with (directory / file).open("wb") as out:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(corpus()),
            model_writer=out,
            minloglevel=2,
            num_threads=1,
            **{"vocab_size": 1200, "hard_vocab_limit": False, **options},
        )
    write_json(directory / "tokenizer_config.json", settings)


MAKERS: dict[str, Callable[[Path], None]] = {
    "uncased": lambda d: _wordpiece(d, do_lower_case=True),
    "cased": lambda d: _wordpiece(d, do_lower_case=False),
    "accents-kept": lambda d: _wordpiece(d, do_lower_case=True, strip_accents=False),
    "accents-stripped-cased": lambda d: _wordpiece(
        d, do_lower_case=False, strip_accents=True, tokenize_chinese_chars=False
    ),
    "gpt2": lambda d: _byte_level(d, ["<|endoftext|>"], tokenizer_class="GPT2Tokenizer"),
    "roberta": lambda d: _byte_level(
        d, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], tokenizer_class="RobertaTokenizer"
    ),
    "deberta": lambda d: _byte_level(d, BERT_SPECIALS, tokenizer_class="DebertaTokenizer"),
    "t5": lambda d: _pieces(
        d, "spiece.model", {"tokenizer_class": "T5Tokenizer"}, pad_id=0, eos_id=1, unk_id=2, bos_id=-1
    ),
    "albert": lambda d: _pieces(
        d,
        "spiece.model",
        {"tokenizer_class": "AlbertTokenizer"},
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols="[CLS],[SEP],[MASK]",
    ),
    "xlnet": lambda d: _pieces(
        d,
        "spiece.model",
        {"tokenizer_class": "XLNetTokenizer"},
        control_symbols="<cls>,<sep>,<pad>,<mask>,<eod>",
        user_defined_symbols="<eop>",
    ),
    "xlm-roberta": lambda d: _pieces(d, "sentencepiece.bpe.model", {"tokenizer_class": "XLMRobertaTokenizer"}),
    "deberta-v2": lambda d: _pieces(
        d,
        "spm.model",
        {"tokenizer_class": "DebertaV2Tokenizer"},
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        pad_piece="[PAD]",
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        unk_piece="[UNK]",
    ),
    "llama": lambda d: _pieces(
        d,
        "tokenizer.model",
        {"tokenizer_class": "LlamaTokenizer"},
        model_type="bpe",
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    ),
}


def _fetched(name: str) -> Path:
    folder = weights.path(name)
    if folder is None:
        pytest.skip(f"{name} is not fetched: run `make fetch`")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The published BERT vocabulary, uncased, of the MiniLM package."""
    return _fetched("minilm")


@pytest.fixture(scope="session")
def mistral() -> Path:
    """mistral-common's data folder; its package becomes importable."""
    data = _fetched("mistral-tokenizers")
    if str(data.parents[1]) not in sys.path:
        sys.path.append(str(data.parents[1]))
    return data
