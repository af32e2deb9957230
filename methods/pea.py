"""PEA: progressive embedding alignment."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor, nn
from torch.nn.functional import interpolate

from .. import HoldfastError, in_range
from .backbones.structure import NORMS
from .distributed import summed
from .functional import full_precision, softmax_entropy
from .parts.by_update import PredictsByUpdate
from .source import Source

# Of ResNets, of timm's and open_clip's transformers and ConvNeXts, and of torchvision's ViT.
_BLOCK = re.compile(r"(?:.*\.)?(?:layer\d+\.|blocks\.|resblocks\.|layers\.encoder_layer_)\d+")
_RIDGE = 1e-5  # on the diagonal of a covariance
Moments = dict[str, Tensor]


class PEA(PredictsByUpdate, Source):
    """Moves the embeddings of each block to the source's mean and covariance (Xiao et al. 2026).

    A first forward pass measures how far the mean and variance of each block's embeddings are from the
    source's; the nearest block has weight 0, the farthest 1. In a second pass, each block's embeddings
    move by its weight to (x - mu_t) S_t^-1/2 S_s^1/2 + mu_s, with moving statistics of the stream, which
    start anew where a block's mean jumps. No weight changes and nothing is differentiated.
    Written from the paper's abstract and the numbers of official runs, as its code has no licence. For
    networks whose blocks give maps [B,C,H,W] or tokens [B,N,D].

    Args:
        momentum: how far the stream's statistics follow each batch.
        follow: how far the average drift and the average entropy follow each batch.
        jump: a block's statistics start anew if its drift is above this multiple of the average drift.
        surprise: all statistics start anew if the entropy is this many nats above its average.
        group: channels that are aligned together; 768 for a ViT-B/16.
        views: predict the mean over the images, their centre and their mirror images.
        blocks: names of the modules whose outputs are aligned; (): residual or transformer blocks, else
            normalisation layers.
        source_images: number of source images for the statistics, in whole batches.
        source_data: these images (its test loader); None: the first ones of the stream.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        momentum: float = 0.02,
        follow: float = 0.2,
        jump: float = 2.5,
        surprise: float = 1.0,
        group: int = 32,
        views: bool = False,
        blocks: Sequence[str] = (),
        source_images: int = 2000,
        source_data: LightningDataModule | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, **kwargs)
        in_range(0, 1, momentum=momentum, follow=follow)
        in_range(0, jump=jump, surprise=surprise)
        in_range(1, group=group, source_images=source_images)
        self.momentum, self.follow, self.jump, self.surprise = momentum, follow, jump, surprise
        self.group, self.views, self.blocks = group, views, blocks
        self.source_images, self.source_data = source_images, source_data

    def prepare(self) -> None:
        self.aligned = list(self.blocks) or block_names(self.backbone)
        modules = dict(self.backbone.named_modules())
        if not self.aligned or not set(self.aligned) <= modules.keys():
            raise HoldfastError(
                f"The backbone has no blocks {self.aligned}. Pass blocks=..., names of its modules."
            )

    def fresh_state(self) -> dict[str, Any]:
        """Statistics of each block that was ever aligned, and the average entropy."""
        return {"blocks": {}, "entropy": None}

    @torch.no_grad()
    def learn_source(self, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Any]:
        """Mean [C], variance [C] and root of the covariance [G,g,g] of each block's embeddings."""
        seen = [self.measured(images) for images, _ in batches]
        return {name: _joined([batch[name] for batch in seen]) for name in seen[0]}

    def measured(self, images: Tensor) -> dict[str, Moments]:
        """The moments of each block's embeddings of images [B,3,H,W], in a pass without alignment."""
        found: dict[str, Moments] = {}

        def listen(name: str, embeddings: Tensor) -> None:
            found[name] = moments(embeddings, self.group)

        with self.at_blocks(listen):
            self(images)
        return found

    @torch.no_grad()
    def update(self, images: Tensor) -> Tensor:
        logits = torch.stack([self.aligned_logits(part) for part in self.passes(images)])
        logits = logits.unflatten(1, (-1, len(images))).flatten(0, 1).mean(0)
        entropy, average = softmax_entropy(logits).mean(), self.state["entropy"]
        if average is None:
            average = entropy
        anew = entropy > average + self.surprise
        average_now = average.lerp(entropy, self.follow)
        self.trace["average_entropy"] = average_now
        blocks = self.state["blocks"]
        blocks = {name: {**block, "anew": block["anew"] | anew} for name, block in blocks.items()}
        self.state = {**self.state, "blocks": blocks, "entropy": average_now}
        return logits

    def passes(self, images: Tensor) -> list[Tensor]:
        """The images [N,3,H,W] of each pair of passes; views share one, as their statistics do."""
        return [torch.cat(three_views(images)) if self.views else images]

    def aligned_logits(self, images: Tensor) -> Tensor:
        """Logits [B,C] of images [B,3,H,W] from a pass with alignment, after one that measures."""
        if not self.learnt:
            return self(images)
        weights = self.weights(self.measured(images))

        def align(name: str, embeddings: Tensor) -> Tensor | None:
            if not (weight := weights[name]):
                return None
            block = self.followed(name, moments(embeddings, self.group))
            self.state["blocks"][name] = block
            moved = transported(embeddings, block, self.learnt[name])
            return embeddings.lerp(moved, weight)

        self.state = {**self.state, "blocks": dict(self.state["blocks"])}
        with self.at_blocks(align):
            return self(images)

    def weights(self, measured: dict[str, Moments]) -> dict[str, float]:
        """How far each block moves: its distance from the source, scaled to [0,1] over the blocks."""
        distances = []
        for name, now in measured.items():
            source = self.learnt[name]
            mean, var = now["mean"] - source["mean"], now["var"] - source["var"]
            distances.append(mean.norm() + var.norm())
        values = torch.stack(distances)
        least, most = values.aminmax()
        scaled = torch.where(most > least, (values - least) / (most - least), 1).nan_to_num(1)
        return dict(zip(measured, scaled.tolist(), strict=True))

    def followed(self, name: str, now: Moments) -> Moments:
        """The moving statistics of a block after a batch; they start anew at the first and after a jump."""
        past = self.state["blocks"].get(name)
        if past is None:
            zero, no = now["mean"].new_zeros(()), torch.zeros_like(now["mean"][0], dtype=torch.bool)
            return {"mean": now["mean"], "cov": now["cov"], "drift": zero, "anew": no}
        drift = (now["mean"] - past["mean"]).abs().mean()
        average = torch.where(past["anew"], 0, past["drift"].lerp(drift, self.follow))
        anew = past["anew"] | (drift > self.jump * average)
        mean, cov = (
            torch.where(anew, now[key], past[key].lerp(now[key], self.momentum))
            for key in ("mean", "cov")
        )
        return {"mean": mean, "cov": cov, "drift": average, "anew": torch.zeros_like(anew)}

    @contextmanager
    def at_blocks(self, act: Callable[[str, Tensor], Tensor | None]) -> Iterator[None]:
        """Within it, the output of each block becomes what `act` makes of its name and it, unless None."""

        def hook(name: str) -> Callable[..., Tensor | None]:
            def listen(block: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor | None:
                rows = output.movedim(1, -1) if output.dim() == 4 else output
                with torch.autocast(output.device.type, enabled=False):
                    new = act(name, full_precision(rows))
                if new is None:
                    return None
                new = new.to(output.dtype)
                return new.movedim(-1, 1).contiguous() if output.dim() == 4 else new

            return listen

        modules = dict(self.backbone.named_modules())
        with ExitStack() as hooks, torch.compiler.set_stance("force_eager"):  # which calls hooks
            for name in self.aligned:
                hooks.enter_context(modules[name].register_forward_hook(hook(name)))
            yield


def block_names(network: nn.Module) -> list[str]:
    """The residual or transformer blocks of a network, or else its normalisation layers, in order."""
    modules = dict(network.named_modules())
    return [name for name in modules if _BLOCK.fullmatch(name)] or [
        name for name, layer in modules.items() if isinstance(layer, NORMS)
    ]


def three_views(images: Tensor) -> list[Tensor]:
    """Images [B,3,H,W], the central 90 % of them at the same size, and their mirror images."""
    size = images.shape[-2:]
    height, width = (int(0.9 * length) for length in size)
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    centre = images[..., top : top + height, left : left + width]
    return [images, interpolate(centre, size=size, mode="bilinear"), images.flip(3)]


def moments(embeddings: Tensor, group: int) -> Moments:
    """Mean [C], unbiased variance [C] and covariances [G,g,g] within groups of embeddings [...,C].

    A group has the largest number of channels g that divides both C and `group`. Those of the whole batch.
    """
    rows = embeddings.flatten(0, -2)
    channels = rows.shape[1]
    size = math.gcd(channels, group)
    count = summed(rows.new_full((1,), len(rows)))
    mean = summed(rows.sum(0)) / count
    grouped = (rows - mean).unflatten(1, (-1, size))
    scatter = summed(torch.einsum("ngi,ngj->gij", grouped, grouped))
    cov = scatter / (count - 1).clamp_min(1)
    return {"mean": mean, "var": cov.diagonal(dim1=1, dim2=2).flatten(), "cov": cov, "count": count}


def _joined(batches: list[Moments]) -> Moments:
    """Mean and variance [C] of all embeddings, and the root [G,g,g] of the mean covariance of batches."""
    count = torch.cat([batch["count"] for batch in batches])[:, None]
    means, variances = (torch.stack([batch[key] for batch in batches]) for key in ("mean", "var"))
    mean = (count * means).sum(0) / count.sum()
    squares = (count - 1) * variances + count * (means - mean) ** 2
    root = _power(torch.stack([batch["cov"] for batch in batches]).mean(0), 0.5)
    return {"mean": mean, "var": squares.sum(0) / count.sum(), "root": root}


def transported(embeddings: Tensor, stream: Moments, source: Moments) -> Tensor:
    """(x - mu_t) S_t^-1/2 S_s^1/2 + mu_s for embeddings x [...,C], group by group."""
    rotation = _power(stream["cov"], -0.5) @ source["root"]
    centred = (embeddings - stream["mean"]).unflatten(-1, rotation.shape[:2])
    return torch.einsum("...gi,gij->...gj", centred, rotation).flatten(-2) + source["mean"]


def _power(cov: Tensor, exponent: float) -> Tensor:
    """Powers of covariances [G,g,g], with a small number on their diagonals."""
    # A batch that is not finite makes the step undone, and would stop the decomposition.
    cov = cov.nan_to_num(0, 0, 0)
    ridge = torch.full_like(cov[..., 0], _RIDGE).diag_embed()
    values, vectors = torch.linalg.eigh(cov + ridge)
    values = values.clamp_min(_RIDGE / 2) ** exponent
    return (vectors * values[:, None]) @ vectors.mT
