"""A classifier published as a pickle: converted by the command that anyone would use, it is the published class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers

import variorum
from tests.tools.command import here as run
from tests.tools.command import refused
from tests.tools.weights import need
from variorum.inference.encode import tensors

pytestmark = pytest.mark.real_weights
GATE = 1e-5
REACTIONS = [
    "C C ( = O ) O . O C C >> C C ( = O ) O C C",
    "c 1 c c c c c 1 Br . O B ( O ) c 1 c c c c c 1 >> c 1 c c c ( - c 2 c c c c c 2 ) c c 1",
    "C C ( = O ) Cl . N c 1 c c c c c 1 >> C C ( = O ) N c 1 c c c c c 1",
    "O = C ( O ) c 1 c c c c c 1 . C O >> C O C ( = O ) c 1 c c c c c 1",
]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reactions") / "safe"
    done = run("convert", str(need("reaction-classes")), str(out), "--from-pickle", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tensors"] == 201
    return out


def test_the_fifty_classes_have_the_published_probabilities(converted: Path) -> None:
    transformers.logging.set_verbosity_error()
    config = transformers.BertConfig.from_pretrained(converted)
    config.num_labels = 50  # which the file says too, beside a list of two names that current releases believe
    published = transformers.BertForSequenceClassification.from_pretrained(converted, config=config).eval()
    model = variorum.load(converted)
    assert model.head_names == ("sequence_classification",) and model.origin.fresh == ()
    given = tensors(model, model.tokenizer.pad(model.tokenizer.encode_batch(REACTIONS)))
    with torch.no_grad():
        ours = model(**given).logits.softmax(-1)
        theirs = published(**given).logits.softmax(-1)
    assert ours.shape == (len(REACTIONS), 50)
    assert float((ours - theirs).abs().max()) < GATE
    assert ours.argmax(-1).tolist() == theirs.argmax(-1).tolist()
    assert len(set(ours.argmax(-1).tolist())) > 1 and float(ours.max(-1).values.min()) > 0.5


def test_the_directory_as_published_is_refused_with_the_command_that_helps() -> None:
    line = refused("embed", str(need("reaction-classes")), "--text", "N", code=4)
    assert "variorum convert" in line and "--from-pickle" in line
