"""What a stream's images look like: one source image under pairs of corruptions, for figures."""

from collections.abc import Sequence
from typing import Any

import numpy as np

Pair = tuple[tuple[str, float], tuple[str, float]]  # two corruptions and their severities


def corrupted(stream: dict[str, Any], pairs: Sequence[Pair], position: int = 0) -> np.ndarray:
    """The source image at a position under each pair in turn, without crop and flip, uint8 [n,H,W,3].

    stream: arguments of CCC, as a suite has them. The noise is the same in all of the images.
    """
    import torch  # here: listing the experiments needs none of it

    from ... import datamodules
    from ...datamodules.corruptions import corrupt

    source = stream["source"]
    config = source if isinstance(source, dict) else {"class_path": source}
    arguments = dict(config.get("init_args", {}))
    if "crop" in arguments:
        arguments["crop"] = "center"
    images = getattr(datamodules, config["class_path"].rpartition(".")[2])(**arguments)
    index = torch.tensor([position])
    clean, _ = images.load(index, index)
    found = []
    for pair in pairs:
        image = clean
        for slot, (name, severity) in enumerate(pair, start=1):
            image = corrupt(image, name, severity, slot, stream.get("table", "imagenet"))
        found.append(image[0].permute(1, 2, 0).numpy())
    return np.stack(found)
