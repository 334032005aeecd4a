"""Controlled studies: arms, a plan with its cost, cells run fairly over seeds, intervals, verdicts, a report.

A study compares; it does not define models (`family`), train them (`training`) or score tasks (`tasks`).
"""
