"""One more model costs at most twenty lines, and the count leaves nothing out."""

from __future__ import annotations

import statistics

import pytest

from tests.tools import cost


@pytest.mark.parametrize("name", cost.NAMED)
def test_one_more_model_costs_at_most_twenty_lines(name: str) -> None:
    [one] = [found for found in cost.costs() if found.name == name]
    assert one.spec > 0
    assert one.names > 0
    assert one.total <= cost.LIMIT


def test_so_does_the_median_of_those_that_need_no_new_part() -> None:
    found = cost.costs()
    assert all(one.spec > 0 for one in found)
    assert statistics.median(one.total for one in found) <= cost.LIMIT


#: `NORM` is shared, `HELPER` is not.
SPEC = """
NORM = 1
#: why
HELPER = [
    NORM,

]
SIZES = {
    "small": 1,
}
OLD = make(NORM)
NEW = OLD.variant(
    HELPER, sizes=SIZES,
)
MODELS = (OLD, NEW)
"""


def test_what_only_this_model_uses_is_counted_and_its_sizes_apart() -> None:
    counted = cost.cost("new", "old", SPEC, "NEW", "NAMES = 1\nOTHER = NAMES\n", "NAMES")
    assert (counted.spec, counted.names, counted.sizes) == (7, 1, 3)


def test_sizes_written_in_place_are_counted_apart_too() -> None:
    source = "NEW = make(\n    1,\n    sizes={\n        2: 3,\n    },\n)\n"
    counted = cost.cost("new", "old", source, "NEW", "NAMES = 1\n", "NAMES")
    assert (counted.spec, counted.sizes) == (3, 3)
