"""variorum: one small engine for the transformer family, every model a short diff on its ancestor."""

__version__ = "0.1.0"
