"""What each family puts around its SentencePiece model: special tokens, id shifts, appended tokens, wrapper.

One entry per family, as data. A directory names its family in ``tokenizer_config.json`` or ``config.json``; where it
does not, the model's own pieces tell. Ids follow the released checkpoints: T5's sentinels count down from the end of
the vocabulary, XLM-R keeps fairseq's first four ids and so shifts all others by one. Only data lives here;
:mod:`variorum.text.dressing` applies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .encoding import Side
from .layouts import PEGASUS_RESERVED, Layout, fairseq, pegasus, plain

WrapperEntry = list[tuple[str, int]]

# In the order of their ids (facebookresearch/fairseq, examples/mbart and examples/multilingual).
MBART_LANGUAGES = (
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX",
    "kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN",
    "zh_CN",
)  # fmt: skip
MBART50_LANGUAGES = (
    *MBART_LANGUAGES, "af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID", "ka_GE", "km_KH", "mk_MK",
    "ml_IN", "mn_MN", "mr_IN", "pl_PL", "ps_AF", "pt_XX", "sv_SE", "sw_KE", "ta_IN", "te_IN", "th_TH", "tl_XX",
    "uk_UA", "ur_PK", "xh_ZA", "gl_ES", "sl_SI",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How one family uses its ``.model`` file.

    Wrappers are written as roles, with A and B for the texts and "language" for the code of the text's language.

    Attributes:
        classes: tokenizer classes and model types that mean this family.
        layout: which id each piece gets.
        languages: language codes, in the order of their ids; the first wrapper slot of that name holds one of them.
        language: the code where the directory names none (``src_lang``).
        append: tokens that the family adds after the model's.
        sentinels: further ones, <extra_id_0> last, unless ``extra_ids`` says how many.
        clean: whether the released code cleans a text up before the model sees it; ``lower`` is its default for case.
        strip_left: roles whose token takes the whitespace before it.
        prefix_after_special: whether text after a special token starts with a space again.
        switches: whether begin and end are put or left out by ``add_bos_token`` and ``add_eos_token``.
    """

    name: str
    single: WrapperEntry
    pair: WrapperEntry
    roles: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    layout: Layout = plain
    languages: tuple[str, ...] = ()
    language: str = ""
    append: tuple[str, ...] = ()
    sentinels: int = 0
    clean: bool = False
    lower: bool = False
    strip_left: tuple[str, ...] = ()
    prefix_after_special: bool = True
    padding_side: Side = "right"
    pad_type_id: int = 0
    switches: bool = False


T5 = Dialect(
    name="t5",
    classes=("t5", "mt5", "umt5", "byt5", "flan"),
    roles={"eos": "</s>", "unk": "<unk>", "pad": "<pad>"},
    sentinels=100,
    single=[("A", 0), ("eos", 0)],
    pair=[("A", 0), ("eos", 0), ("B", 0), ("eos", 0)],
)
PEGASUS = Dialect(
    name="pegasus",
    classes=("pegasus",),
    layout=pegasus,
    roles={"eos": "</s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask_2>"},
    append=PEGASUS_RESERVED,
    single=[("A", 0), ("eos", 0)],
    pair=[("A", 0), ("B", 0), ("eos", 0)],
)
ALBERT = Dialect(
    name="albert",
    classes=("albert",),
    roles={"bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "sep": "[SEP]", "pad": "<pad>", "cls": "[CLS]",
           "mask": "[MASK]"},
    single=[("cls", 0), ("A", 0), ("sep", 0)],
    pair=[("cls", 0), ("A", 0), ("sep", 0), ("B", 1), ("sep", 1)],
    clean=True,
    lower=True,
    strip_left=("mask",),
)  # fmt: skip
XLNET = Dialect(
    name="xlnet",
    classes=("xlnet",),
    roles={"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "<sep>", "pad": "<pad>", "cls": "<cls>",
           "mask": "<mask>"},
    append=("<eop>", "<eod>"),
    single=[("A", 0), ("sep", 0), ("cls", 2)],
    pair=[("A", 0), ("sep", 0), ("B", 1), ("sep", 1), ("cls", 2)],
    clean=True,
    strip_left=("mask",),
    padding_side="left",
    pad_type_id=3,
)  # fmt: skip
XLM_R = Dialect(
    name="xlm-roberta",
    classes=("xlmroberta", "xlm-roberta"),
    roles={"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>",
           "mask": "<mask>"},
    single=[("cls", 0), ("A", 0), ("sep", 0)],
    pair=[("cls", 0), ("A", 0), ("sep", 0), ("sep", 0), ("B", 0), ("sep", 0)],
    layout=fairseq,
    strip_left=("mask",),
)  # fmt: skip
MBART = replace(
    XLM_R,
    name="mbart",
    classes=("mbart",),
    languages=MBART_LANGUAGES,
    language="en_XX",
    append=MBART_LANGUAGES,
    single=[("A", 0), ("eos", 0), ("language", 0)],
    pair=[("A", 0), ("B", 0), ("eos", 0), ("language", 0)],
)
MBART50 = replace(
    MBART,
    name="mbart50",
    classes=("mbart50",),
    languages=MBART50_LANGUAGES,
    append=MBART50_LANGUAGES,
    single=[("language", 0), ("A", 0), ("eos", 0)],
    pair=[("language", 0), ("A", 0), ("B", 0), ("eos", 0)],
)
DEBERTA_V2 = Dialect(
    name="deberta-v2",
    classes=("debertav2", "deberta-v2", "deberta-v3"),
    roles={"bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]",
           "mask": "[MASK]"},
    single=[("cls", 0), ("A", 0), ("sep", 0)],
    pair=[("cls", 0), ("A", 0), ("sep", 0), ("B", 1), ("sep", 1)],
)  # fmt: skip
LLAMA = Dialect(
    name="llama",
    classes=("llama", "mistral", "mixtral", "gemma", "vicuna", "alpaca", "baichuan", "yi"),
    single=[("bos", 0), ("A", 0), ("eos", 0)],
    pair=[("bos", 0), ("A", 0), ("eos", 0), ("bos", 1), ("B", 1), ("eos", 1)],
    prefix_after_special=False,
    padding_side="left",
    switches=True,
)
DIALECTS = (XLM_R, MBART, MBART50, DEBERTA_V2, ALBERT, XLNET, PEGASUS, T5, LLAMA)


def dialect_of(class_name: str, model_type: str, pieces: set[str], file_name: str) -> Dialect:
    """The family of a directory: by its declared class, else by model type, else by what the model contains.

    Args:
        class_name: ``tokenizer_class`` of the settings, or "".
        model_type: ``model_type`` of ``config.json``, or "".
        pieces: spellings of the model's pieces.
        file_name: the model file's name.
    """
    named = dialect_named(class_name) or dialect_named(model_type)
    if named is not None:
        return named
    if file_name == "sentencepiece.bpe.model":
        return XLM_R
    if "[CLS]" in pieces:
        return DEBERTA_V2 if "[UNK]" in pieces else ALBERT
    if "<sep>" in pieces and "<cls>" in pieces:
        return XLNET
    return T5 if file_name == "spiece.model" else LLAMA


def dialect_named(name: str) -> Dialect | None:
    """The family that a tokenizer class or a model type stands for, if it is one of these."""
    short = name.lower().removesuffix("fast").removesuffix("tokenizer")
    return next((dialect for dialect in DIALECTS if short in dialect.classes), None)
