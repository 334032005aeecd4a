"""Published directories in and out: same keys, same values, same meaning of the config."""

from variorum.checkpoint.load import load
from variorum.checkpoint.save import save

__all__ = ["load", "save"]
