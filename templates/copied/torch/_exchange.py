"""Ranges of a tensor that lies in shards: every process gets the cells that it wants, and gradients go back to owners.

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

    def sends(self, tensor: torch.Tensor, begin: Sequence[Range], end: Sequence[Range]) -> list[tuple[int, Any]]:
        """Of a tensor that begins as `begin` says, cells to all whose `end` overlaps: what each sent to this one.

        Pieces come with the place of their first cell, this process's own among them.
        """
        pieces, operations = [], []
        for other, peer in enumerate(dist.get_process_group_ranks(self.group)):
            to, since = overlap(begin[self.me], end[other]), overlap(begin[other], end[self.me])
            own = tensor.narrow(self.axis, to[0] - begin[self.me][0], to[1] - to[0]) if to[0] < to[1] else None
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
        return sorted(pieces, key=lambda found: found[0])


class Fetched(torch.autograd.Function):
    """The cells that this process wants, of its own shard and of those who have the rest."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, exchange: Exchange) -> torch.Tensor:
        ctx.exchange = exchange
        pieces = [piece for _, piece in exchange.sends(tensor, exchange.owned, exchange.wanted)]
        return torch.cat(pieces, exchange.axis) if pieces else tensor.narrow(exchange.axis, 0, 0).clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return Returned.apply(gradient, ctx.exchange), None  # type: ignore[no-untyped-call]


class Returned(torch.autograd.Function):
    """The adjoint: what all who fetched cells of this shard say of them, added up."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, exchange: Exchange) -> torch.Tensor:
        ctx.exchange = exchange
        start, stop = exchange.owned[exchange.me]
        shape = list(tensor.shape)
        shape[exchange.axis] = stop - start
        total = tensor.new_zeros(shape)
        for at, piece in exchange.sends(tensor, exchange.wanted, exchange.owned):
            total.narrow(exchange.axis, at - start, piece.shape[exchange.axis]).add_(piece)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return Fetched.apply(gradient, ctx.exchange), None  # type: ignore[no-untyped-call]


class Tied(torch.autograd.Function):
    """A result that has gradients of all inputs, of those it does not depend on zeros: all processes walk one graph.

    Otherwise a process without a part, or without the bias, would leave the others waiting for its gradient.
    """

    @staticmethod
    def forward(ctx: Any, result: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        ctx.shapes = [(one.shape, one.dtype) for one in inputs]
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        zeros = [gradient.new_zeros(shape, dtype=dtype) for shape, dtype in ctx.shapes]
        return gradient, *[zero if needs else None for needs, zero in zip(ctx.needs_input_grad[1:], zeros)]


def overlap(one: Range, other: Range) -> Range:
    return max(one[0], other[0]), min(one[1], other[1])
