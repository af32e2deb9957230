"""One table: every method on every kind of backbone, with settings under which it acts on small images."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
from torch import nn
from torch.optim import SGD, Adam

from holdfast import methods as m
from holdfast.callbacks import ASR
from holdfast.methods.testing import NETS

sgd = partial(SGD, lr=0.05, momentum=0.9)
adam = partial(Adam, lr=0.01)


class Row(NamedTuple):
    """A method with settings that make it act on six 8x8 images at a time."""

    make: Callable[..., m.TTAMethod]
    # Which of a batch-norm net's tensors: no, affine, all, features (all but the classifier's), with
    # +statistics.
    changes: str
    refuses: tuple[str, ...] = ()  # backbones
    skips_top: bool = False
    foretells: bool = True  # whether `predict` gives the logits of the next `adapt`


everyone = {"entropy_factor": 1.0, "redundancy": 1.1}
views = {"threshold": 2.0, "views": 3, "teacher_rate": 0.1}
source = {"source_images": 6}
memory = {"capacity": 8, "every": 4}


def with_asr(backbone: nn.Module, optimizer: Any = sgd, **options: Any) -> m.TTAMethod:
    return m.ETA(backbone, optimizer, recovery=ASR(start=0.9), **everyone, **options)


TABLE = {
    "Source": Row(m.Source, "no"),
    "BNAdapt": Row(m.BNAdapt, "no", ("gn", "vit", "clip")),
    "BNAdapt-prior": Row(partial(m.BNAdapt, prior=16), "no", ("gn", "vit", "clip")),
    "Tent": Row(partial(m.Tent, optimizer=sgd), "affine"),
    "RPL": Row(partial(m.RPL, optimizer=sgd), "affine"),
    "SLR": Row(partial(m.SLR, optimizer=adam), "affine", skips_top=True),
    "CPL": Row(partial(m.CPL, optimizer=sgd), "affine"),
    "CPL-rescore": Row(partial(m.CPL, optimizer=sgd, rescore=True), "affine", foretells=False),
    "CoTTA": Row(partial(m.CoTTA, optimizer=sgd, **views), "affine"),
    "CoTTA-everything": Row(
        partial(m.CoTTA, optimizer=sgd, everything=True, symmetric=False, restore=0.1, **views),
        "all",
    ),
    "ETA": Row(partial(m.ETA, optimizer=sgd, **everyone), "affine"),
    "EATA": Row(partial(m.EATA, optimizer=sgd, fisher_images=6, beta=1.0, **everyone), "affine"),
    "RDumb": Row(partial(m.RDumb, optimizer=sgd, every=10, **everyone), "affine"),
    "SAR": Row(partial(m.SAR, optimizer=sgd, entropy_factor=1.0), "affine", skips_top=True),
    "RoTTA": Row(partial(m.RoTTA, optimizer=adam, teacher_rate=0.1, **memory), "affine+statistics"),
    "PeTTA": Row(
        partial(m.PeTTA, optimizer=adam, teacher_rate=0.1, source_images=6, **memory),
        "affine+statistics",
    ),
    "RMT": Row(partial(m.RMT, optimizer=sgd, teacher_rate=0.1, warm_up=6, **source), "all"),
    "SANTA": Row(partial(m.SANTA, optimizer=sgd, **source), "affine"),
    "GTTA": Row(partial(m.GTTA, optimizer=adam, **source), "all", foretells=False),
    "AdaContrast": Row(
        partial(
            m.AdaContrast, optimizer=sgd, teacher_rate=0.1, capacity=8, neighbours=3, patience=6
        ),
        "all+statistics",
        foretells=False,
    ),
    "Tent-COME": Row(partial(m.Tent, optimizer=sgd, come=True), "affine"),
    "SAR-COME": Row(
        partial(m.SAR, optimizer=sgd, entropy_factor=1.2, come=True), "affine", (), True
    ),
    "ROID": Row(partial(m.ROID, optimizer=sgd), "affine"),
    "ETA-ASR": Row(with_asr, "affine"),
    "CMF": Row(partial(m.CMF, optimizer=sgd), "affine"),
    "DeYO": Row(
        partial(m.DeYO, optimizer=sgd, filter_factor=1.1, drop=-1.0), "affine", skips_top=True
    ),
    "DeYO-pixels": Row(
        partial(m.DeYO, optimizer=sgd, filter_factor=1.1, drop=-1.0, destruction="pixels"),
        "affine",
        skips_top=True,
    ),
    "LAME": Row(m.LAME, "no"),
    "NEO": Row(m.NEO, "no"),
    "T3A": Row(partial(m.T3A, supports=2), "no"),
    "PEA": Row(partial(m.PEA, **source), "no"),
    "SHOT": Row(partial(m.SHOT, optimizer=sgd, class_weight=0.3, confidence=0.2), "features"),
    "ZeroSiam": Row(partial(m.ZeroSiam, optimizer=sgd), "affine"),
    "LCoTTA": Row(
        partial(m.LCoTTA, optimizer=sgd, directions=2, stored=4, every=2, **everyone), "affine"
    ),
    "NOTE": Row(
        partial(m.NOTE, optimizer=adam, **memory), "affine+statistics", ("gn", "vit", "clip")
    ),
    "MEMO": Row(partial(m.MEMO, optimizer=sgd, views=2), "all"),
    "REM": Row(partial(m.REM, optimizer=adam, mask=0.25), "affine", ("bn", "gn"), skips_top=True),
    "FOA": Row(partial(m.FOA, population=4, source_images=6), "no", ("bn", "gn")),
    "TTAug": Row(partial(m.TTAug, views=2), "no"),
    "VTE": Row(partial(m.VTE, views=3, share=0.5), "no"),
    "TDA": Row(partial(m.TDA, entropy=(0.0, 1.0)), "no"),
    "TDA-views": Row(partial(m.TDA, entropy=(0.0, 1.0), views=3, share=0.7), "no"),
    "TPT": Row(partial(m.TPT, views=4, share=0.5), "no", ("bn", "gn", "vit")),
    "BATCLIP": Row(m.BATCLIP, "affine", ("bn", "gn", "vit")),
    "BNEMA": Row(m.BNEMA, "statistics", ("gn", "vit", "clip")),
    "SoTTA": Row(
        partial(m.SoTTA, optimizer=adam, confidence=0.0, **memory),
        "affine+statistics",
        ("gn", "vit", "clip"),
        skips_top=True,
    ),
}
PAIRS = [(name, net) for name in TABLE for net in NETS if net not in TABLE[name].refuses]
FIRST = list({name: (name, net) for name, net in reversed(PAIRS)}.values())[::-1]
# Variants of a method treat layers as the method does, so that one network shows all of theirs; CLIP's
# image tower has those of the vision transformer.
PAIRS = [p for p in PAIRS if p in FIRST or ("-" not in p[0] and p[1] != "clip")]
NET_OF = {name.lower(): NETS[net] for name, net in FIRST}
ON_BN = [name for name in TABLE if "bn" not in TABLE[name].refuses]
on_every_net = pytest.mark.parametrize(("name", "net"), PAIRS)
quiet = pytest.mark.filterwarnings(
    "ignore:.*to this batch alone", "ignore:.*batch statistics of a single image"
)
