"""Tokens of vision transformers: attention and values of the class token, fewer patches, prompts."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.hooks import RemovableHandle

from ... import HoldfastError
from ..functional import full_precision


class Tokens:
    """The blocks of a vision transformer with a class token: timm's or torchvision's.

    Raises HoldfastError if the network is not such a transformer.
    """

    def __init__(self, network: nn.Module) -> None:
        modules = dict(network.named_modules())
        names = [name for name, module in modules.items() if _is_attention(module)]
        class_tokens = [
            token
            for module in modules.values()
            for key in ("cls_token", "class_token")
            if isinstance(token := getattr(module, key, None), nn.Parameter)
        ]
        if not names or not class_tokens:
            raise HoldfastError(
                f"{type(network).__name__} is not a vision transformer with a class token, whose "
                "attention to the patches is needed. Choose a backbone such as vit_b_16 or timm's "
                "vit_base_patch16_224."
            )
        self.blocks = [modules[name.rpartition(".")[0]] for name in names]
        self.width = class_tokens[0].shape[-1]
        self.attention: Any = modules[names[-1]]
        self.prefix = max(getattr(module, "num_prefix_tokens", 1) for module in modules.values())

    @contextmanager
    def attended(self) -> Iterator[list[Tensor]]:
        """A list to which each forward pass appends the class token's attention [B,N] in the last block."""
        attentions: list[Tensor] = []

        def listen(layer: nn.Module, args: tuple[Tensor, ...]) -> None:
            with torch.no_grad():
                attentions.append(_class_attention(layer, args[0])[:, self.prefix :])

        with self.attention.register_forward_pre_hook(listen):
            yield attentions

    def only(self, patches: Tensor) -> RemovableHandle:
        """Within `with`, only these patches [B,N] enter the first block."""

        def choose(block: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            x, *more = args
            index = (patches + self.prefix)[..., None].expand(-1, -1, x.shape[2])
            return torch.cat([x[:, : self.prefix], x.gather(1, index)], 1), *more

        return self.blocks[0].register_forward_pre_hook(choose)

    def prompted(self, prompts: Tensor) -> RemovableHandle:
        """Within `with`, N tokens of values [N D] enter the first block after the class token."""
        tokens = prompts.view(1, -1, self.width)

        def add(block: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            x, *more = args
            rows = tokens.expand(len(x), -1, -1).to(x)
            return torch.cat([x[:, :1], rows, x[:, 1:]], 1), *more

        return self.blocks[0].register_forward_pre_hook(add)

    @contextmanager
    def classes(self) -> Iterator[list[Tensor]]:
        """A list to which each forward pass appends the class token [B,D] after each block."""
        tokens: list[Tensor] = []

        def listen(block: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            tokens.append(full_precision(output[:, 0]))

        with ExitStack() as hooks:
            for block in self.blocks:
                hooks.enter_context(block.register_forward_hook(listen))
            yield tokens


def _is_attention(module: nn.Module) -> bool:
    """Whether it attends over all tokens of an image, with queries, keys and values from one matrix."""
    if isinstance(module, nn.MultiheadAttention):
        return True
    return isinstance(getattr(module, "qkv", None), nn.Linear) and hasattr(module, "num_heads")


def _class_attention(layer: Any, x: Tensor) -> Tensor:
    """The attention [B,N] of the first of the tokens x [B,N,D] to all tokens, averaged over heads."""
    if isinstance(layer, nn.MultiheadAttention):
        both = linear(x, layer.in_proj_weight, layer.in_proj_bias)
    else:
        both = layer.qkv(x)
    query, key, _ = both.unflatten(2, (3, layer.num_heads, -1)).unbind(2)
    query = getattr(layer, "q_norm", nn.Identity())(query[:, 0])
    key = getattr(layer, "k_norm", nn.Identity())(key)
    scores = torch.einsum("bhd,bnhd->bhn", query, key) * query.shape[2] ** -0.5
    return scores.softmax(2).mean(1)
