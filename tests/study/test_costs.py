"""The front holds what no other beats; costs are counted in their units."""

from __future__ import annotations

from variorum.study.costs import LATENCY, MEMORY, Costs, front

ONE = Costs(latency=0.002, latency_95=0.005, throughput=900.0, memory=300 * 10**6, disk=10**6, flops=None, training=1.0)


def test_an_arm_is_on_the_front_unless_another_is_as_good_and_cheaper_or_better_at_its_price():
    points = {"cheap": (60.0, 1.0), "good": (90.0, 9.0), "worse": (60.0, 2.0), "dear": (90.0, 10.0), "mid": (70.0, 3.0)}
    assert front(points) == ("cheap", "good", "mid")
    assert front({"a": (1.0, 1.0), "b": (1.0, 1.0)}) == ("a", "b")
    assert front({}) == ()


def test_costs_are_said_in_milliseconds_and_megabytes():
    assert LATENCY.of(ONE) == 5.0 and MEMORY.of(ONE) == 300.0
