"""What is wrong with labelled rows, found before a model learns it.

``audit`` runs every check on a table; each gives :class:`Finding` s with the lines they are about. Nothing is changed
and nothing left out: what to do about a finding is for a person to say.
"""

from variorum.tasks.audit.findings import Audit, Finding, Severity
from variorum.tasks.audit.run import Columns, audit

__all__ = ["Audit", "Columns", "Finding", "Severity", "audit"]
