"""One stream on several devices: each rank has the whole of every batch and computes a part of it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import DDPStrategy, StrategyRegistry
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import batch_norm
from torch.overrides import TorchFunctionMode

from .. import HoldfastError
from .functional import full_precision

# In place of a rank's number of rows.
_END, _REFUSED = -1, -2


class SyncStrategy(DDPStrategy):
    """One stream: each rank sees all of every batch, and computes a part of it.

    The result is that of a run on a single device, up to rounding: batch statistics, losses, filters
    and memories are those of the whole batch, and gradients are averaged. See `TTAMethod.logits`.
    """

    strategy_name = "sync"

    def setup(self, trainer: Trainer) -> None:
        # Lightning would deal out the samples of map-style data sets, and some of them twice.
        trainer._accelerator_connector.use_distributed_sampler = False
        super().setup(trainer)

    def process_dataloader(self, dataloader: Any) -> Any:
        if hasattr(dataloader, "divide"):  # a Stream's; any other makes whole batches on each rank
            join = partial(join_batches, device=self.root_device)
            dataloader.divide(self.global_rank, self.world_size, join)
        return dataloader


# So that Trainer(strategy="sync") finds it; importing this module has no other effect.
StrategyRegistry.register("sync", SyncStrategy, SyncStrategy.__doc__, override=True)


# ---- forward and backward passes --------------------------------------------------------------------


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
        rows = network(parts[dist.get_rank()])
    return _Gathered.apply(rows, sizes)


class _Gathered(Function):
    """The rows of all ranks, from those of each."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        return _gathered(rows, sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.split(ctx.sizes)[dist.get_rank()] * len(ctx.sizes), None


def _gathered(rows: Tensor, sizes: list[int]) -> Tensor:
    """Rows [sizes[rank],...] of each rank, one rank after another."""
    if not any(sizes):
        return rows
    padded = rows.new_zeros(max(sizes), *rows.shape[1:])
    padded[: len(rows)] = rows
    every = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(every, padded)
    return torch.cat([part[:size] for part, size in zip(every, sizes, strict=True)])


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


# ---- batch statistics -------------------------------------------------------------------------------


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance [C] of each channel of the whole batch [B,C,...], in float32 at least."""
    x = full_precision(x)
    if Parts.active is not None:
        return _SharedMoments.apply(x, Parts.active.shares)
    var, mean = torch.var_mean(x, _channel_dims(x), correction=0)
    return mean, var


def summed(part: Tensor) -> Tensor:
    """The sum, of any shape, over the parts of the batch; without a gradient."""
    if Parts.active is None:
        return part
    total = part.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


def batch_size(x: Tensor) -> int:
    """The number of images in the whole batch [B,C,...]."""
    return len(x) if Parts.active is None else Parts.active.num_images


def normalise(
    x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Batch normalisation of x [B,C,...]; unlike in `batch_norm`, gradients flow through mean and var."""
    y = (full_precision(x) - _per_channel(mean, x)) / _per_channel(torch.sqrt(var + eps), x)
    if weight is not None:
        y = y * _per_channel(weight, x)
    if bias is not None:
        y = y + _per_channel(bias, x)
    return y.to(x.dtype)


def _channel_dims(x: Tensor) -> list[int]:
    """All dimensions of x [B,C,...] except that of the channels."""
    return [dim for dim in range(x.dim()) if dim != 1]


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    """Values [C] in a shape that is broadcast over x [B,C,...]."""
    return values.view(-1, *(1,) * (x.dim() - 2))


class _SharedMoments(Function):
    """Mean and biased variance over the parts of all ranks, [n,C,...] -> [C], [C].

    Those of the parts are exchanged and joined (Chan et al. 1983), which loses no digits; in the
    backward pass the gradients of both are summed over the ranks.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        part = torch.stack(torch.var_mean(x, _channel_dims(x), correction=0))
        every = [torch.empty_like(part) for _ in shares]
        dist.all_gather(every, part)
        variances, means = torch.stack(every, 1)
        weight = shares.to(part)[:, None]
        mean = (weight * means).sum(0)
        var = (weight * (variances + (means - mean) ** 2)).sum(0)
        ctx.save_for_backward(x, mean)
        ctx.share = float(shares[dist.get_rank()])
        return mean, var

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        x, mean = ctx.saved_tensors
        both = torch.stack(gradients)
        dist.all_reduce(both)
        of_mean, of_var = both * (ctx.share * x.shape[1] / x.numel())
        gradient = _per_channel(of_mean, x) + 2 * _per_channel(of_var, x) * (
            x - _per_channel(mean, x)
        )
        return gradient, None


class Parts(TorchFunctionMode):
    """While active, the input of a network is this rank's part of a batch.

    Batch statistics are then those of the whole batch. Each call of `batch_norm` that uses them is
    intercepted, so the networks' layers stay unchanged.

    Args:
        sizes: images in the part of each rank.
    """

    # Where `moments` and `batch_size` find it when a layer of ours calls them: a network calls its
    # layers by `forward(x)`, which has no argument to hand it down. One for the process is enough, as
    # each rank is a process and sends one batch at a time through a network.
    active: ClassVar["Parts | None"] = None

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.num_images = sum(sizes)
        self.shares = torch.tensor(sizes, dtype=torch.float64) / self.num_images

    def __enter__(self) -> "Parts":
        self.outer, Parts.active = Parts.active, self
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        Parts.active = self.outer
        super().__exit__(*exception)

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        answer = self.batch_norm if function is batch_norm else function
        return answer(*args, **(kwargs or {}))

    def batch_norm(
        self,
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        """`torch.nn.functional.batch_norm` of x [B,C,...] with the statistics of the whole batch."""
        if not training:
            return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
        mean, var = moments(input)
        if running_mean is not None and running_var is not None:
            count = input[0, 0].numel() * self.num_images
            running_mean.lerp_(mean.detach().to(running_mean), momentum)
            running_var.lerp_((var.detach() * count / (count - 1)).to(running_var), momentum)
        return normalise(input, mean, var, weight, bias, eps)


# ---- loading: each rank makes a part of a batch -----------------------------------------------------


def join_batches(parts: Iterator[Any], device: torch.device) -> Iterator[Any]:
    """Whole batches, on `device`, from the parts that the ranks' loaders yield; those may differ in size.

    A batch is a NamedTuple of tensors with a row for each image. If the loader of one rank raises an error,
    all ranks raise the first one, so that none waits for the others.
    """
    while True:
        part, refusal = None, None
        try:
            part = next(parts, None)
        except HoldfastError as error:
            refusal = str(error)
        size = _REFUSED if refusal else _END if part is None else len(part[0])
        sizes = _gathered(torch.tensor([size], device=device), [1] * dist.get_world_size()).tolist()
        if _REFUSED in sizes:
            sentences: list[str | None] = [None] * len(sizes)
            dist.all_gather_object(sentences, refusal)
            raise HoldfastError(next(sentence for sentence in sentences if sentence))
        if part is None and set(sizes) == {_END}:
            return
        if part is None or _END in sizes:
            raise HoldfastError(
                "The ranks' streams differ in length. Pass all nodes the same data and options."
            )
        yield type(part)(*(_gathered(rows.to(device), sizes) for rows in part))
