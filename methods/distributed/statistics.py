"""Mean and variance of a batch, which may be divided over several ranks."""

from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import batch_norm
from torch.overrides import TorchFunctionMode

from ..functional import full_precision


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance [C] of each channel of the whole batch [B,C,...], in float32 at least."""
    x = full_precision(x)
    if Parts.active is not None:
        return SharedMoments.apply(x, Parts.active.shares)
    var, mean = torch.var_mean(x, channel_dims(x), correction=0)
    return mean, var


@torch.no_grad()
def stored_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and unbiased variance [C] of the whole batch, as running statistics take them up."""
    mean, var = moments(x)
    count = batch_size(x) * x[0, 0].numel()
    return mean, var * count / max(count - 1, 1)


def batch_size(x: Tensor) -> int:
    """The number of images in the whole batch [B,C,...]."""
    return len(x) if Parts.active is None else Parts.active.num_images


def normalise(
    x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Batch normalisation of x [B,C,...]; unlike in `batch_norm`, gradients flow through mean and var."""
    y = (full_precision(x) - per_channel(mean, x)) / per_channel(torch.sqrt(var + eps), x)
    if weight is not None and bias is not None:
        y = y * per_channel(weight, x) + per_channel(bias, x)
    return y.to(x.dtype)


def channel_dims(x: Tensor) -> list[int]:
    """All dimensions of x [B,C,...] except that of the channels."""
    return [dim for dim in range(x.dim()) if dim != 1]


def per_channel(values: Tensor, x: Tensor) -> Tensor:
    """Values [C] in a shape that is broadcast over x [B,C,...]."""
    return values.view(-1, *(1,) * (x.dim() - 2))


class SharedMoments(Function):
    """Mean and biased variance over the parts of all ranks, [n,C,...] -> [C], [C].

    Those of the parts are exchanged and joined (Chan et al. 1983), which loses no digits; in the
    backward pass the gradients of both are summed over the ranks.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        own = torch.stack(torch.var_mean(x, channel_dims(x), correction=0))
        every = [torch.empty_like(own) for _ in shares]
        dist.all_gather(every, own)
        variances, means = torch.stack(every, 1)
        weight = shares.to(own)[:, None]
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
        gradient = per_channel(of_mean, x) + 2 * per_channel(of_var, x) * (x - per_channel(mean, x))
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
        """`torch.nn.functional.batch_norm` of x [B,C,...], same arguments, with the statistics of the whole
        batch.
        """
        if not training:
            return batch_norm(
                input, running_mean, running_var, weight, bias, training, momentum, eps
            )
        mean, var = moments(input)
        if running_mean is not None and running_var is not None:
            count = input[0, 0].numel() * self.num_images
            running_mean.lerp_(mean.detach().to(running_mean), momentum)
            running_var.lerp_((var.detach() * count / (count - 1)).to(running_var), momentum)
        return normalise(input, mean, var, weight, bias, eps)
