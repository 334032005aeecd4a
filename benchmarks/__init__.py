"""Speed and memory against the peers: one file per question, run together by ``make bench``.

Each file has ``measure(quick)``, which returns jobs: what was measured of every engine in one run whose turns
alternate, because timings on one machine drift by a fifth between runs of the same code. What is wanted of each job,
and what holds back those that miss it, stands in ``goals.toml`` alone. ``engines/`` holds how each engine is asked,
``harness/`` what they all share.
"""
