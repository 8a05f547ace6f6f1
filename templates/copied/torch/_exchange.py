"""Ranges of a tensor that lies in shards: every process gets the cells that it wants.

In: shards, who owns which cells, who wants which. Out: the wanted cells. Neighbours send each other nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from .._sharding import Range


@dataclass(frozen=True)
class Exchange:
    """Who owns which cells along an axis, and who wants which; every process of the group takes part."""

    group: Any
    me: int
    axis: int
    owned: Sequence[Range]
    wanted: Sequence[Range]

    def fetched(self, tensor: torch.Tensor) -> torch.Tensor:
        """The cells that this process wants, of its own shard and of those who have the rest."""
        mine, pieces, operations = self.owned[self.me], [], []
        for other, peer in enumerate(dist.get_process_group_ranks(self.group)):
            to, since = _overlap(mine, self.wanted[other]), _overlap(self.owned[other], self.wanted[self.me])
            own = tensor.narrow(self.axis, to[0] - mine[0], to[1] - to[0]) if to[0] < to[1] else None
            if other == self.me:
                pieces += [] if own is None else [(to[0], own)]
                continue
            if since[0] < since[1]:
                shape = list(tensor.shape)
                shape[self.axis] = since[1] - since[0]
                pieces.append((since[0], tensor.new_empty(shape)))
                operations.append(dist.P2POp(dist.irecv, pieces[-1][1], peer, self.group))
            if own is not None:
                operations.append(dist.P2POp(dist.isend, own.contiguous(), peer, self.group))
        for request in dist.batch_isend_irecv(operations) if operations else ():
            request.wait()
        cells = [piece for _, piece in sorted(pieces, key=lambda found: found[0])]
        return torch.cat(cells, self.axis) if cells else tensor.narrow(self.axis, 0, 0).clone()


def _overlap(one: Range, other: Range) -> Range:
    return max(one[0], other[0]), min(one[1], other[1])
