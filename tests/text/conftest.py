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


def _whisper(directory: Path) -> None:
    """Text tokens, then the controls, then time stamps, which are no special tokens, as published."""
    _byte_level(directory, [])
    size = len(json.loads((directory / "vocab.json").read_text(encoding="utf-8")))
    times = [f"<|{hundredths / 100:.2f}|>" for hundredths in range(0, 10, 2)]
    tokens = {
        str(size + place): {"content": content, "special": content not in times, "normalized": False}
        for place, content in enumerate([*WHISPER_CONTROLS, *times])
    }
    settings = {"tokenizer_class": "WhisperTokenizer", "added_tokens_decoder": tokens}
    write_json(directory / "tokenizer_config.json", settings)


def _gpt1(directory: Path) -> None:
    trainer = tokenizers.CharBPETokenizer(lowercase=True)
    trainer.train_from_iterator(corpus(), vocab_size=1500, special_tokens=["<unk>"], show_progress=False)
    trainer.save_model(str(directory))
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "OpenAIGPTTokenizer"})


# The languages begin Whisper's own list, whose order gives their ids.
WHISPER_CONTROLS = [
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|zh|>", "<|de|>", "<|es|>", "<|translate|>",
    "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nocaptions|>", "<|notimestamps|>",
]  # fmt: skip
T5_SPECIALS = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}

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
    "bart": lambda d: _byte_level(d, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], tokenizer_class="BartTokenizer"),
    "qwen2": lambda d: _byte_level(d, ["<|endoftext|>"], tokenizer_class="Qwen2Tokenizer"),
    "neox": lambda d: _byte_level(d, ["<|endoftext|>", "<|padding|>"], tokenizer_class="GPTNeoXTokenizer"),
    "whisper": _whisper,
    "gpt1": _gpt1,
    "t5": lambda d: _pieces(d, "spiece.model", {"tokenizer_class": "T5Tokenizer"}, **T5_SPECIALS),
    "pegasus": lambda d: _pieces(d, "spiece.model", {"tokenizer_class": "PegasusTokenizer"}, **T5_SPECIALS),
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
    "mbart": lambda d: _pieces(d, "sentencepiece.bpe.model", {"tokenizer_class": "MBartTokenizer"}),
    "mbart50": lambda d: _pieces(
        d, "sentencepiece.bpe.model", {"tokenizer_class": "MBart50Tokenizer", "src_lang": "ro_RO"}
    ),
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
    "gemma": lambda d: _pieces(
        d,
        "tokenizer.model",
        {
            "tokenizer_class": "GemmaTokenizer",
            "additional_special_tokens": ["<start_of_turn>", "<end_of_turn>"],
        },
        model_type="bpe",
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        allow_whitespace_only_pieces=True,
        user_defined_symbols="<start_of_turn>,<end_of_turn>,<table>",
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        bos_piece="<bos>",
        eos_piece="<eos>",
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
