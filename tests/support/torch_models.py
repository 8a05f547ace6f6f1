"""Models as people write them in PyTorch, with random weights: a ResNet, a U-Net, a transformer, of any width.

The ResNet has SiLU in place of ReLU: where the last bits turn one on, gradients differ by 2 to 10 % (PyTorch in f32 from
f64 too, with 5 of 8 seeds).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn

functional: Any = torch.nn.functional


class Bottleneck(nn.Module):
    """Three convolutions past which the input goes."""

    def __init__(self, inner: int, outer: int, stride: int, taken: int) -> None:
        super().__init__()
        self.reduce, self.spread = nn.Conv2d(taken, inner, 1, bias=False), nn.Conv2d(inner, outer, 1, bias=False)
        self.middle = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(inner), nn.BatchNorm2d(inner), nn.BatchNorm2d(outer)])
        self.past: nn.Module = nn.Identity()
        if stride > 1 or taken != outer:
            self.past = nn.Sequential(nn.Conv2d(taken, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, src: Any) -> Any:
        found = functional.silu(self.norms[0](self.reduce(src)))
        found = functional.silu(self.norms[1](self.middle(found)))
        return functional.silu(self.norms[2](self.spread(found)) + self.past(src))


class ResNet(nn.Module):
    """ResNet-50 where `width` is 64 and `blocks` are its own."""

    def __init__(self, width: int = 64, blocks: tuple[int, ...] = (3, 4, 6, 3), classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.SiLU(), nn.MaxPool2d(3, 2, 1)
        )
        stages: list[nn.Module] = []
        taken = width
        for stage, count in enumerate(blocks):
            inner = width * 2**stage
            for number in range(count):
                stages.append(Bottleneck(inner, 4 * inner, 2 if stage and not number else 1, taken))
                taken = 4 * inner
        self.stages = nn.Sequential(*stages)
        self.classes = nn.Linear(taken, classes)

    def forward(self, src: Any) -> Any:
        return self.classes(self.stages(self.stem(src)).mean((2, 3)))


def twice(taken: int, given: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(taken, given, 3, padding=1), nn.ReLU(), nn.Conv2d(given, given, 3, padding=1), nn.ReLU()
    )


class UNet(nn.Module):
    """Down by strides, up by transposed convolutions, with what was before joined in."""

    def __init__(self, width: int = 32, depth: int = 3) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.first = twice(3, width)
        self.down = nn.ModuleList([twice(a, b) for a, b in pairwise(widths)])
        self.raised = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths)])
        self.joined = nn.ModuleList([twice(2 * a, a) for a in widths[:-1]])
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, src: Any) -> Any:
        found = [self.first(src)]
        for down in self.down:
            found.append(down(functional.max_pool2d(found[-1], 2)))
        made = found.pop()
        for raised, joined in zip(reversed(self.raised), reversed(self.joined), strict=True):
            made = joined(torch.cat([found.pop(), raised(made)], 1))
        return self.last(made)


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.asked, self.projected = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, src: Any) -> Any:
        batch, length, width = src.shape
        parts = self.asked(self.norms[0](src)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value)
        src = src + self.projected(seen.transpose(1, 2).reshape(batch, length, width))
        return src + self.narrow(functional.gelu(self.wide(self.norms[1](src))))


def transformer(width: int = 256, heads: int = 4, blocks: int = 2) -> nn.Module:
    return nn.Sequential(*(Block(width, heads) for _ in range(blocks)), nn.Linear(width, 10))


def trained(model: Any, src: Any, call: Callable[[Any], Any] | None = None) -> list[Any]:
    """What a step of training finds and changes: the results, all gradients, the weights after the step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    made = (model if call is None else call)(src)
    made.float().square().mean().backward()
    grads = [one.grad.detach().clone() for one in model.parameters()]
    optimizer.step()
    return [made.detach(), *grads, *(one.detach().clone() for one in model.parameters())]
