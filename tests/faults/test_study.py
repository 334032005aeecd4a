"""A study whose whole process group is killed ends in the report of the uninterrupted one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults import study


@pytest.mark.nightly
def test_a_study_killed_again_and_again_leaves_what_the_uninterrupted_one_leaves(tmp_path: Path):
    whole = study.Whole(tmp_path / "whole")
    hits, left = study.killed_and_finished(tmp_path / "killed", 3, whole.seconds, random.Random(1))
    assert hits and left == whole.left
