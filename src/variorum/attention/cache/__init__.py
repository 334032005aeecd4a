"""What a decoder keeps between calls: keys and values of each layer in slots, and where the tokens behind them stand.

* :mod:`~variorum.attention.cache.places` decides, once a call for all layers that lie alike, in which slots new tokens
  go and which are read: all of a row's, or a ring of the last.
* :mod:`~variorum.attention.cache.pages` does the same for pages that rows share until one of them writes.
* :mod:`~variorum.attention.cache.slots` holds one layer's tensors and does what the places say;
  :mod:`~variorum.attention.cache.numbers` says in which numbers.
* :mod:`~variorum.attention.cache.state` puts them together for a stack.
* :mod:`~variorum.attention.cache.fixed` shows the same slots to a step that is recorded and replayed.

An attention sees ``slots.append(k, v)`` alone, and gets every key that its queries may see back.
"""

from variorum.attention.cache.pages import as_one_row, in_rows
from variorum.attention.cache.slots import Once, Slots
from variorum.attention.cache.state import Cache
from variorum.spec.cache import PLAN, CachePlan

__all__ = ["PLAN", "Cache", "CachePlan", "Once", "Slots", "as_one_row", "in_rows"]
