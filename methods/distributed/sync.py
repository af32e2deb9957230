"""One batch on several ranks: each has the whole batch and computes a part of it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from ... import HoldfastError
from .statistics import Parts

END, REFUSED = -1, -2  # in place of a number of rows


def divided(network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """`network(images)`, rows [B,...] in at least float32; each rank computes a part of them.

    Batch statistics are those of the whole batch. The backward pass assumes the same loss on each rank;
    gradients of parameters are correct after they are averaged over the ranks. A batch of fewer images than
    ranks is computed by all.
    """
    ranks = dist.get_world_size()
    if len(images) < ranks:
        return network(images)
    parts = images.tensor_split(ranks)
    sizes = [len(part) for part in parts]
    with Parts(sizes):
        own = network(parts[dist.get_rank()])
    return Gathered.apply(own, sizes)


class Gathered(Function):
    """The rows of all ranks, from each rank's own rows."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        return gathered(own, sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.split(ctx.sizes)[dist.get_rank()] * len(ctx.sizes), None


def averaged(gradient: Tensor) -> Tensor:
    """The mean over the ranks of a gradient, of any shape."""
    total = gradient.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total / dist.get_world_size()


def agreed(flag: Tensor) -> Tensor:
    """Whether a condition, a scalar, holds on every rank."""
    number = flag.int()
    dist.all_reduce(number, dist.ReduceOp.MIN)
    return number.bool()


def gathered(own: Tensor, sizes: list[int]) -> Tensor:
    """Rows [sizes[rank],...] of each rank, one rank after another."""
    if not any(sizes):
        return own
    padded = own.new_zeros(max(sizes), *own.shape[1:])
    padded[: len(own)] = own
    every = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(every, padded)
    return torch.cat([rows[:size] for rows, size in zip(every, sizes, strict=True)])


def join_batches(parts: Iterator[Any], device: torch.device) -> Iterator[Any]:
    """Whole batches, on `device`, from the parts that the ranks' loaders yield; those may differ in size.

    A batch is a NamedTuple of tensors with a row for each image. If the loader of one rank raises an error,
    all ranks do, so that none waits for the others.
    """
    while True:
        part, refusal = None, None
        try:
            part = next(parts, None)
        except HoldfastError as error:
            refusal = str(error)
        sizes = shared_sizes(REFUSED if refusal else END if part is None else len(part[0]), device)
        if REFUSED in sizes:
            raise HoldfastError(first_refusal(refusal, len(sizes)))
        if part is None and set(sizes) == {END}:
            return
        if part is None or END in sizes:
            raise HoldfastError(
                "The ranks' streams differ in length. Pass all nodes the same data and options."
            )
        yield joined(type(part)(*(rows.to(device) for rows in part)), sizes)


def joined(part: Any, sizes: list[int]) -> Any:
    """The whole batch from the parts, whose tensors are exchanged together, as bytes."""
    flat = [rows.unsqueeze(-1).flatten(1).contiguous().view(torch.uint8) for rows in part]
    whole = gathered(torch.cat(flat, 1), sizes).split([rows.shape[1] for rows in flat], 1)
    # Copied, since a single row may begin at an address that is not aligned for its type.
    copied = partial(torch.clone, memory_format=torch.contiguous_format)
    return type(part)(
        *(
            copied(rows).view(own.dtype).view(len(rows), *own.shape[1:])
            for rows, own in zip(whole, part, strict=True)
        )
    )


def shared_sizes(size: int, device: torch.device) -> list[int]:
    """The number of rows in each rank's part."""
    own = torch.tensor([size], device=device)
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    return torch.cat(every).tolist()


def first_refusal(own: str | None, ranks: int) -> str:
    """The error message of the first rank that has one."""
    sentences: list[str | None] = [None] * ranks
    dist.all_gather_object(sentences, own)
    return next(sentence for sentence in sentences if sentence)
