"""What the verbs that work on tables of rows share: their arguments, and what each of them means, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from variorum.cli.reading import Option

Data = Annotated[str, Option(help="Rows: .csv, .tsv, .jsonl or .parquet, or - for stdin.")]
Labelled = Annotated[str, Option(help="Labelled rows: .csv, .tsv, .jsonl or .parquet, or - for stdin.")]
Trained = Annotated[Path, Option(help="A directory that variorum train wrote.")]
_NAMES = "Where the table's columns have other names than in training, each as role=name: text=body."
Columns = Annotated[tuple[str, ...], Option(many=True, help=_NAMES)]
_START = "A directory, a GGUF file, a spec's name or org/name in the cache; or nano for a small one from nothing."
Start = Annotated[str, Option(help=_START)]
_WRITER = "a directory, a spec's name or org/name in the cache; or nano:t5 for one from nothing."
Writer = Annotated[str, Option(help=f"An encoder-decoder: {_WRITER}")]
Out = Annotated[Path, Option(help="The directory to write the model to.")]
Device = Annotated[str, Option(help="Where it runs: cpu, cuda or cuda:N.")]
Texts = Annotated[str, Option(help="The column of texts.")]
First = Annotated[str, Option(help="The column of first texts.")]
Second = Annotated[str, Option(help="The column of second texts.")]
Labels = Annotated[str, Option(help="The column of labels.")]
Numbers = Annotated[str, Option(help="The column of numbers.")]
