"""Speed and memory against the peers: one file per question, run together by ``make bench``.

Each file has ``measure()``, which returns rows that hold a goal beside what was measured. Figures are medians of runs
that alternate between the sides, because timings on one machine drift by a fifth between runs of the same code.
"""
