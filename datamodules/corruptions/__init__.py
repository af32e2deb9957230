"""tmp"""


def corrupt(images, name, severity, seed, table="imagenet"):
    import torch

    return (
        (images.float() + torch.randn(images.shape) * severity * 10).clamp(0, 255).to(images.dtype)
    )


def jpeg(images, quality):
    return images
