"""Pages of slots that rows share until one of them writes.

All rows lie in one store, cut into pages. A row's table lists its pages; a page that several tables list is copied
before a row writes in it, so prompts with a common beginning, and beams, hold it once. Queries of all rows look at the
store as one row, each at the pages of its own row alone: what rows share is read once for all of them.
"""

from __future__ import annotations

import heapq

import torch
from torch import Tensor

from variorum.attention.cache.places import Piece, Read, Scatter, Span, Step
from variorum.parts.where import Where
from variorum.spec.cache import Arrangement


class PagePlaces:
    """Tables of pages. A page that no row lists any more is used again, the lowest first."""

    now: Step
    limit: int | None = None

    def __init__(self, arrangement: Arrangement) -> None:
        assert arrangement.page is not None
        self.arrangement, self.page = arrangement, arrangement.page
        self.tables: list[list[int | None]] = []
        self.shares: list[int] = []
        self._free: list[int] = []
        self._first = torch.zeros(0, dtype=torch.long)  # the order of each page's first token
        self._listed = torch.zeros(0, 0, dtype=torch.bool)  # [rows, pages]

    def begin(self, piece: Piece) -> Where:
        while len(self.tables) < piece.count:
            self.tables.append([])
        self._widen(piece)
        copies: list[tuple[int, int]] = []
        for row, old, end in zip(piece.rows, piece.old, piece.ends, strict=True):
            self._claim(row, old, end, copies)
        self.now = self._step(piece, copies)
        for row, end in zip(piece.rows, piece.ends, strict=True):
            self._let_go(row, end)
        return self.now.where

    def select(self, rows: list[int]) -> bool:
        tables = [list(self.tables[row]) for row in rows]
        for table in tables:
            for page in table:
                self._share(page)
        for row in range(len(self.tables)):
            self._cut(row, 0)
        self.tables = tables
        self._listed = self._listed.new_zeros(len(rows), self._listed.shape[1])
        for row, table in enumerate(tables):
            self._listed[row, [page for page in table if page is not None]] = True
        return False

    def drop(self, lengths: list[int], counts: list[int]) -> None:
        for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
            self._cut(row, -(-(length - count) // self.page))

    def holds(self, row: int, tokens: int) -> bool:
        """Whether a row still lists what comes after its first ``tokens`` may see of them."""
        live = self.tables[row][self.arrangement.pages_past(tokens) : -(-tokens // self.page)]
        return None not in live

    def fork(self, source: int, target: int, tokens: int) -> None:
        """Let row ``target`` list the pages of the first ``tokens`` of ``source``, in the place of its own."""
        self._cut(target, 0)
        self.tables[target] = self.tables[source][: -(-tokens // self.page)]
        for page in self.tables[target]:
            self._share(page)
            if page is not None:
                self._listed[target, page] = True

    def slots(self, row: int, start: int, stop: int) -> tuple[int, Tensor]:
        order = torch.arange(start, stop)
        return 0, self._pages(row)[order // self.page] * self.page + order % self.page

    def used(self, lengths: list[int]) -> int:
        return len(self.shares) * self.page

    def _step(self, piece: Piece, copies: list[tuple[int, int]]) -> Step:
        slots, moved, every = len(self.shares) * self.page, None, slice(0, 1)
        if copies:
            pages = torch.tensor(copies, device=piece.device).T[:, :, None] * self.page
            source, target = (pages + torch.arange(self.page, device=piece.device)).flatten(1)
            moved = source, target
        if max(piece.old) == 0:
            where = piece.new if piece.streams else piece.among(piece.new.k_order, padded=not piece.even)
            return Step(where, 1, slots, self._scattered(piece), None, joined=True, copies=moved)
        run = self._run(piece)
        if run is None:
            where = self._together(piece)
            return Step(where, 1, slots, self._scattered(piece), Read(every, 0, slots), copies=moved)
        first, start = run
        where = piece.among(torch.arange(first, piece.ends[0], device=piece.device)[None], padded=False)
        old, end = (start + tokens - first for tokens in (piece.old[0], piece.ends[0]))
        return Step(where, 1, slots, Span(every, old, end), Read(every, start, end), copies=moved)

    def _scattered(self, piece: Piece) -> Scatter:
        number, order, batch, tokens = piece.tokens()
        firsts = [old // self.page for old in piece.old]
        ends = [self._pages(row, first) for row, first in zip(piece.rows, firsts, strict=True)]
        wide = torch.nn.utils.rnn.pad_sequence(ends, batch_first=True, padding_value=-1).to(piece.device)
        page = wide[number, order // self.page - torch.tensor(firsts, device=piece.device)[number]]
        kept = page >= 0  # a page that no later token sees has not been claimed
        slots = (page * self.page + order % self.page)[kept]
        return Scatter(torch.zeros_like(slots), slots, batch[kept], tokens[kept])

    def _run(self, piece: Piece) -> tuple[int, int] | None:
        """Where the one row's pages are neighbours: the order of the first token held, and its slot."""
        if len(piece.rows) > 1 or not piece.even:
            return None
        pages = self.tables[piece.rows[0]]
        past = sum(page is None for page in pages)
        live = [page for page in pages if page is not None]
        if live != list(range(live[0], live[0] + len(live))):
            return None
        return past * self.page, live[0] * self.page

    def _together(self, piece: Piece) -> Where:
        """All queries as one row among all slots."""
        new, rows = piece.new, len(piece.rows)
        pages = len(self.shares)
        order = (self._first[:pages, None] + torch.arange(self.page, device=piece.device)).view(1, -1)
        listed = self._listed[piece.run, :pages]
        queries = new.q_order.shape[-1]
        seen = listed[:, None, :, None].expand(-1, queries, -1, self.page).reshape(1, rows * queries, -1)
        positions = order
        if piece.positions is not None:
            owner = listed.long().argmax(0).repeat_interleave(self.page)
            positions = piece.positions[owner, order[0].clamp(max=piece.positions.shape[1] - 1)][None]
        return Where(
            _one_row(new.q_positions, rows), positions, _one_row(new.q_order, rows), order, allowed=seen, padded=True
        )  # fmt: skip

    def _claim(self, row: int, old: int, end: int, copies: list[tuple[int, int]]) -> None:
        """Give a row the pages for its tokens from ``old`` to ``end``, none of them shared."""
        table = self.tables[row]
        for index in range(old // self.page, -(-end // self.page)):
            if index < len(table):
                page = table[index]
                assert page is not None
                if self.shares[page] > 1:
                    table[index] = fresh = self._take(index)
                    copies.append((page, fresh))
                    self._listed[row, fresh] = True
                    self._leave(row, page)
                continue
            table.append(self._take(index) if old or index >= self.arrangement.pages_past(end) else None)
            if table[index] is not None:
                self._listed[row, table[index]] = True

    def _let_go(self, row: int, tokens: int) -> None:
        """Leave the pages that no later token sees."""
        for index in reversed(range(self.arrangement.pages_past(tokens))):
            page = self.tables[row][index]
            if page is None:
                return
            self.tables[row][index] = None
            self._leave(row, page)

    def _cut(self, row: int, pages: int) -> None:
        """Leave all but the first ``pages`` of a row."""
        for page in self.tables[row][pages:]:
            if page is not None:
                self._leave(row, page)
        del self.tables[row][pages:]

    def _take(self, index: int) -> int:
        """A page that nobody lists, for the ``index``-th place of a table."""
        if self._free:
            page = heapq.heappop(self._free)
        else:
            page = len(self.shares)
            self.shares.append(0)
            if page >= len(self._first):
                self._first = torch.cat((self._first, self._first.new_zeros(max(page, 16))))
                self._listed = torch.cat((self._listed, self._listed.new_zeros(len(self._listed), max(page, 16))), 1)
        self.shares[page], self._first[page] = 1, index * self.page
        return page

    def _share(self, page: int | None) -> None:
        if page is not None:
            self.shares[page] += 1

    def _leave(self, row: int, page: int) -> None:
        self._listed[row, page] = False
        self.shares[page] -= 1
        if not self.shares[page]:
            heapq.heappush(self._free, page)

    def _pages(self, row: int, first: int = 0) -> Tensor:
        """A row's pages from its ``first`` on, -1 for one that was let go."""
        return torch.tensor([-1 if page is None else page for page in self.tables[row][first:]], dtype=torch.long)

    def _widen(self, piece: Piece) -> None:
        if len(self._listed) < piece.count or self._listed.device != piece.device:
            old, self._first = self._listed, self._first.to(piece.device)
            self._listed = torch.zeros(piece.count, len(self._first), dtype=torch.bool, device=piece.device)
            self._listed[: len(old)] = old.to(piece.device)


def as_one_row(x: Tensor, keys: Tensor) -> Tensor:
    """Queries [B, H, n, d] -> [1, H, B · n, d] where ``keys`` are one row for all of them; else as they are."""
    return x if len(x) == len(keys) else x.transpose(0, 1).flatten(1, 2)[None]


def in_rows(x: Tensor, rows: int) -> Tensor:
    """What was made of them, back in rows: [1, H, B · n, e] -> [B, H, n, e]"""
    return x if len(x) == rows else x[0].unflatten(1, (rows, -1)).transpose(0, 1)


def _one_row(marks: Tensor, rows: int) -> Tensor:
    """[rows or 1, n] -> [1, rows · n]"""
    return marks.expand(rows, -1).reshape(1, -1)
