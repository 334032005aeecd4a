"""The engine over the ``tokenizers`` library: everything that a ``tokenizer.json`` can describe.

Also home of the check that tries an unknown pattern in a limited child process. The published wrapper and truncation
are not left to the library: :mod:`variorum.text.encoding` does both for every engine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tokenizers

from ..errors import DamagedFile
from .encoding import Pieces
from .guard import native
from .specials import Added

PROBE_SECONDS = 2

# Runs with limits on processor time and memory, so that a hostile pattern costs two seconds and no more.
_PROBE = """
import resource, sys, json
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import tokenizers
for pattern in json.loads(sys.stdin.read()):
    splitter = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    letters = sorted(set(pattern) | set("a0 -\\n."))
    for text in ["".join(letters), "Aa0 .\\n" * 20, *(c * 60 + end for c in letters for end in ("", "!", "\\x00"))]:
        splitter.pre_tokenize_str(text)
"""


def probe_patterns(patterns: Sequence[str], where: str) -> None:
    """Try unknown regular expressions on provoking texts in a limited child process.

    Raises:
        DamagedFile: one of them does not compile, panics, or takes longer than two seconds.
    """
    command = [sys.executable, "-I", "-c", _PROBE.format(seconds=PROBE_SECONDS)]
    environment = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
    try:
        done = subprocess.run(
            command,
            input=json.dumps(list(patterns)).encode(),
            capture_output=True,
            timeout=PROBE_SECONDS + 3,
            env=environment | {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            check=False,
        )
        ok = done.returncode == 0
    except subprocess.TimeoutExpired:
        ok = False
    if not ok:
        listed = ", ".join(repr(pattern[:40]) for pattern in patterns[:3])
        raise DamagedFile(f"pattern {listed} fails or never finishes on short texts", where=where)


class NativeEngine:
    """A ``tokenizers.Tokenizer`` behind the :class:`~variorum.text.tokenizer.Engine` protocol.

    Args:
        backend: the library's object; it is this engine's from now on.
        where: the file, for messages.
        guarded: hold back what a panic prints, because the file has patterns that nobody vouches for.
    """

    def __init__(self, backend: tokenizers.Tokenizer, *, where: str, guarded: bool = False) -> None:
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        self._plain = backend
        self._special: tokenizers.Tokenizer | None = None
        self._hidden: tokenizers.Tokenizer | None = None
        self._where = where
        self._guarded = guarded
        self.lookup: Mapping[str, int] = backend.get_vocab(with_added_tokens=True)
        names = [""] * (max(self.lookup.values(), default=-1) + 1)
        for token, id in self.lookup.items():
            names[id] = token
        self.names: Sequence[str] = names
        added = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(id for id, token in added.items() if token.special)
        self._never_from_text = self.special_ids

    @property
    def backend(self) -> tokenizers.Tokenizer:
        """The library's own object, for saving and for training."""
        return self._plain

    def encode(self, texts: Sequence[str], *, allow_special_text: bool) -> list[Pieces]:
        backend = self._reading_specials() if allow_special_text else self._plain
        made = self._run(backend, texts)
        for place, (ids, _) in enumerate(made if not allow_special_text else ()):
            if not self._never_from_text.isdisjoint(ids):
                hiding = self._hiding_specials()
                if not self._never_from_text.isdisjoint(ids):
                    [made[place]] = self._run(hiding, [texts[place]])
        return made

    def _run(self, backend: tokenizers.Tokenizer, texts: Sequence[str]) -> list[Pieces]:
        def run() -> list[Pieces]:
            if len(texts) == 1:
                made = [backend.encode(texts[0], add_special_tokens=False)]
            else:
                made = backend.encode_batch(list(texts), add_special_tokens=False)
            return [(encoding.ids, encoding.offsets) for encoding in made]

        return native(run, "the tokenizer fails on this text", self._where, quiet=self._guarded)

    def _reading_specials(self) -> tokenizers.Tokenizer:
        """A second copy, because the library keeps this choice as state and threads may want both."""
        if self._special is None:
            copy = tokenizers.Tokenizer.from_str(self._plain.to_str())
            copy.encode_special_tokens = False
            self._special = copy
        return self._special

    def _hiding_specials(self) -> tokenizers.Tokenizer:
        """A copy whose special tokens no text can spell.

        A unigram model holds ``</s>`` as a piece like any other, so the library makes it from text even when it is told
        to read special tokens as text; SentencePiece itself never does.
        """
        if self._hidden is None:
            document = json.loads(self._plain.to_str())
            model = document["model"]
            unk = model.get("unk_id", self.lookup.get(model.get("unk_token")))
            self._never_from_text = self.special_ids - {unk}
            hidden = {self.names[id]: f"\x00special {id}\x00" for id in self._never_from_text}
            if isinstance(model["vocab"], list):
                model["vocab"] = [[hidden.get(token, token), score] for token, score in model["vocab"]]
            else:
                model["vocab"] = {hidden.get(token, token): id for token, id in model["vocab"].items()}
            if "merges" in model:
                pairs = (pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"])
                model["merges"] = [pair for pair in pairs if hidden.keys().isdisjoint((*pair, "".join(pair)))]
            document["added_tokens"] = [token for token in document["added_tokens"] if not token["special"]]
            self._hidden = backend_from_text(json.dumps(document), self._where)
        return self._hidden

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        def run() -> str:
            return self._plain.decode(list(ids), skip_special_tokens=skip_special)

        return native(run, "the tokenizer cannot decode these ids", self._where, quiet=self._guarded)


def backend_from_text(text: str, where: str) -> tokenizers.Tokenizer:
    """The library's object from the text of a checked document."""
    return native(lambda: tokenizers.Tokenizer.from_str(text), "the tokenizer cannot be built", where)


def check_added_ids(backend: tokenizers.Tokenizer, document: Mapping[str, Any], where: str) -> None:
    """The library gives an added token another id than its file says, silently, when that id does not come next."""
    for token in document.get("added_tokens") or []:
        content, id = token["content"], token["id"]
        got = backend.token_to_id(content)
        if got != id:
            raise DamagedFile(f"added token {content[:40]!r} has id {id}, but its place is {got}", where=where)


def add_tokens(backend: tokenizers.Tokenizer, tokens: Iterable[Added], where: str) -> None:
    """Add tokens that the side files declare, in the order of their ids; known ones only become special.

    Raises:
        DamagedFile: a token would get another id than the file declares.
    """
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    ordered = sorted((token for token in tokens if token.content), key=lambda t: (t.id is None, t.id or 0))
    for token in ordered:
        if token.content in known:
            continue
        made = tokenizers.AddedToken(
            token.content,
            lstrip=token.strip_left,
            rstrip=token.strip_right,
            single_word=token.single_word,
            normalized=token.normalized,
            special=token.special,
        )
        add = backend.add_special_tokens if token.special else backend.add_tokens
        add([made])
        got = backend.token_to_id(token.content)
        if token.id is not None and got != token.id:
            raise DamagedFile(
                f"added token {token.content[:40]!r} has id {token.id} in one file, {got} in another", where=where
            )
