"""The golden traces of whole methods, and our method for each."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from common import GOLDEN
from golden_traces import Trace
from torch import Tensor, nn
from torch.optim import SGD, Adam

from holdfast import methods as m
from holdfast.callbacks import ASR, MRS, FisherRestore
from holdfast.methods.deyo import shuffled_patches, shuffled_pixels
from holdfast.methods.parts.norm import use_batch_statistics
from holdfast.methods.pea import three_views


def sgd(lr: float) -> Any:
    return partial(SGD, lr=lr, momentum=0.9)


def nesterov(lr: float) -> Any:
    return partial(SGD, lr=lr, momentum=0.9, nesterov=True)


def plain(
    kind: type[m.TTAMethod], lr: float | None = None, **kwargs: Any
) -> Callable[..., m.TTAMethod]:
    """The method with SGD, or with its own default optimizer."""
    if lr is not None:
        kwargs["optimizer"] = sgd(lr)
    return lambda net, file: kind(net, **kwargs)


def cotta(lr: float, keep: float, **kwargs: Any) -> Callable[..., m.TTAMethod]:
    """The official runs had the stochastic restore switched off."""
    options = {"optimizer": nesterov(lr), "teacher_rate": 1 - keep, "recovery": None, **kwargs}
    return plain(m.CoTTA, **options)


def sar(lr: float, floor: float = 0.2) -> Callable[..., m.TTAMethod]:
    def make(net: nn.Module, file: Any) -> m.TTAMethod:
        recovery = MRS(floor, keep_average=True)
        return m.SAR(net, optimizer=sgd(lr), keep_momentum=True, recovery=recovery)

    return make


class WithoutMemory(m.SoTTA):
    """Takes each batch for the memory's content, as the golden runs do."""

    def __init__(self, net: nn.Module, file: Any) -> None:
        super().__init__(net, optimizer=partial(Adam, lr=float(file["lr"])))

    def update(self, images: Tensor) -> Tensor:
        logits = self.predict(images)
        self.learn(images, torch.zeros(len(images)))
        return logits


class WithBatchStatistics(WithoutMemory):
    def prepare(self) -> None:
        use_batch_statistics(self.backbone)


class WithoutViews(m.RoTTA):
    """Shows the student the memory as it is, as the golden runs do."""

    def __init__(self, net: nn.Module, file: Any) -> None:
        super().__init__(net, teacher_rate=float(file["nu"]))

    def view(self, images: Tensor) -> Tensor:
        return images


class PeTTAWithoutViews(m.PeTTA):
    view = WithoutViews.view


class PETAL(m.CoTTA):
    """CoTTA on all parameters with a Gaussian prior on the weights, for FisherRestore's golden runs."""

    def __init__(self, net: nn.Module, file: Any) -> None:
        self.scale, self.spread, self.weight = (
            float(file[key]) for key in ("mean_scale", "cov_constant", "spw")
        )
        recovery = FisherRestore(float(file["perc"]))
        super().__init__(net, nesterov(float(file["lr"])), everything=True, recovery=recovery)

    def descend(self, loss: Tensor) -> None:
        variance = self.spread + 1e-6
        distances = [
            ((p - self.scale * s) ** 2 / variance).sum() for p, s in self.parameters_with_source()
        ]
        super().descend(loss + self.weight * 0.5 * torch.stack(distances).sum())


class Mirrored(m.ROID):
    """Takes the mirrored images for the random view, as the golden runs do."""

    def view(self, images: Tensor) -> Tensor:
        return images.flip(3)


class Unchanged(m.ROID):
    """The same with the images as they are."""

    def view(self, images: Tensor) -> Tensor:
        return images


class MirroredCMF(m.CMF):
    view = Mirrored.view


class UnchangedCMF(m.CMF):
    view = Unchanged.view


def roid(kind: type[m.ROID], lr: float, **kwargs: Any) -> Callable[..., m.TTAMethod]:
    return plain(kind, optimizer=nesterov(lr), **kwargs)


def asr(kind: type[m.TTAMethod], lr: float, **settings: Any) -> Callable[..., m.TTAMethod]:
    """A method with ASR; the official ROID has it reset the copy of the source."""

    def make(net: nn.Module, file: Any) -> m.TTAMethod:
        recovery = ASR(anchor=issubclass(kind, m.ROID), **settings)
        return kind(net, nesterov(lr), recovery=recovery)

    return make


def stored(kind: type[m.RMT] | type[m.SANTA], lr: float, flip: bool = True, **kwargs: Any) -> Any:
    """Its view is the mirrored images or none, its projector starts at that of the file."""

    class Stored(kind):  # type: ignore[misc, valid-type]
        view = Mirrored.view if flip else Unchanged.view

        def prepare(self) -> None:
            super().prepare()
            numbers, start = np.load(GOLDEN / "tta3" / "projector.npz"), f"{self.projection}."
            found = {k: torch.from_numpy(numbers[k]) for k in numbers if k.startswith(start)}
            self.projector.load_state_dict({k.removeprefix(start): v for k, v in found.items()})

    return plain(Stored, optimizer=nesterov(lr), source_images=960, **kwargs)


rmt, santa = partial(stored, m.RMT, replay=960), partial(stored, m.SANTA)


class NothingSelected(m.GTTA):
    """Begins with a confidence that no prediction reaches."""

    def fresh_state(self) -> dict[str, Any]:
        return {**super().fresh_state(), "confidence": 4.0}


def gtta(kind: type[m.GTTA], lr: float) -> Callable[..., m.TTAMethod]:
    return plain(kind, optimizer=partial(Adam, lr=lr), source_images=960)


class Stored(m.AdaContrast):
    """Its views and the start of its queue are those of the golden runs."""

    def views(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query = 0.75 * images.flip(3).roll(2, 2)
        return images.roll((1, -1), (2, 3)), query, 1.25 * images.roll(-2, 3)

    def first_queue(self, keys: Tensor, classes: int) -> dict[str, Tensor]:
        stored = np.load(GOLDEN / "tta3" / "queue.npz")
        columns, labels = (torch.from_numpy(stored[key]) for key in ("features", "labels"))
        columns = torch.cat([columns, -columns], 1)[:, : self.capacity].to(keys.dtype)
        queue = {"keys": nn.functional.normalize(columns.T), "labels": labels.repeat(2).long()}
        return {**queue, "labels": queue["labels"][: self.capacity]}


def adacontrast(lr: float, capacity: int, **kwargs: Any) -> Callable[..., m.TTAMethod]:
    optimizer = partial(SGD, lr=lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
    return plain(Stored, optimizer=optimizer, capacity=capacity, **kwargs)


class OneSeed(m.NOTE):
    """Draws random numbers as the golden runs do: seeded once."""

    def __init__(self, net: nn.Module, lr: float, **kwargs: Any) -> None:
        super().__init__(net, partial(Adam, lr=lr), **kwargs)
        self.memory.random.seed(0)

    def draw(self) -> None:
        pass


def note(lr: float, **kwargs: Any) -> Callable[..., m.TTAMethod]:
    return lambda net, file: OneSeed(net, lr, **kwargs)


def deyo(lr: float, **kwargs: Any) -> Callable[..., m.TTAMethod]:
    """Its random orders are those of the file."""

    def make(net: nn.Module, file: Any) -> m.TTAMethod:
        orders = torch.from_numpy(file["perm"].astype(np.int64)) if "perm" in file else None

        class Ordered(m.DeYO):
            def destroyed(self, images: Tensor, rows: Tensor) -> Tensor:
                if orders is None or self.destruction == "occlusion":
                    return super().destroyed(images, rows)
                if self.destruction == "pixels":
                    return shuffled_pixels(images, orders[self.step_count])
                return shuffled_patches(images, orders[self.step_count][rows])

        return Ordered(net, optimizer=sgd(lr), **kwargs)

    return make


class Scripted(m.MEMO):
    """Its views are those of the golden runs: flipped, moved and dimmed by fixed rules."""

    def views_of(self, image: Tensor) -> Tensor:
        return torch.cat([self.view(image, k) for k in range(self.views)])

    def view(self, image: Tensor, k: int) -> Tensor:
        view = image.flip(3) if k % 2 else image
        return view.roll((k // 2 % 5 - 2, k // 10 % 5 - 2), (2, 3)) * (1, 0.75, 1.25, 0.875)[k % 4]


def memo(lr: float, views: int, **kwargs: Any) -> Callable[..., m.TTAMethod]:
    return plain(Scripted, optimizer=nesterov(lr), views=views, **kwargs)


def rem(lr: float, **kwargs: Any) -> Callable[..., m.TTAMethod]:
    return plain(m.REM, optimizer=partial(Adam, lr=lr), skip_top=False, **kwargs)


class WithoutNamesOfClassifiers(m.SHOT):
    """Like TEMPORA's code, trains nothing whose name contains fc, so not a transformer's MLPs."""

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        trained = {id(parameter) for parameter in super().adaptable_parameters()}
        named = self.backbone.named_parameters()
        return [p for name, p in named if id(p) in trained and "fc" not in name]


class OfChildren(m.SHOT):
    """Like TTAB's code, trains no parameter of the network itself, such as its class token."""

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        direct = {id(parameter) for parameter in self.backbone.parameters(recurse=False)}
        return [p for p in super().adaptable_parameters() if id(p) not in direct]


def ttab(lr: float, **kwargs: Any) -> Callable[..., m.TTAMethod]:
    options = {"class_weight": 0.3, "floor": 1e-5, **kwargs}
    return plain(OfChildren, optimizer=nesterov(lr), **options)


class OfTransformer(m.PEA):
    """As in the golden run: statistics follow one view after another, another estimate of the source's.

    For transformers the official code divides the source's scatter within batches by the number of all
    tokens, here 17 of each of 320 images, and not by that of each batch.
    """

    def passes(self, images: Tensor) -> list[Tensor]:
        return three_views(images)

    def learn_source(self, batches: Any) -> dict[str, Any]:
        learnt, tokens = super().learn_source(batches), 32 * 17
        shrunk = (10 * (tokens - 1) / (10 * tokens - 1)) ** 0.5
        return {name: {**block, "root": shrunk * block["root"]} for name, block in learnt.items()}


def pea(**kwargs: Any) -> Callable[..., m.TTAMethod]:
    return plain(m.PEA, blocks=["3", "5", "6", "8"], **kwargs)


def lcotta(lr: float, **kwargs: Any) -> Callable[..., m.TTAMethod]:
    return plain(m.LCoTTA, optimizer=nesterov(lr), **kwargs)


HALF_OF_MAX = 0.5 - 1 / np.log(1000)  # ln(1000)/2 - 1, the official class' default margin
SINGLE = [
    Trace("tta/ccc_pretrained", plain(m.Source)),
    Trace("tta/ccc_batchnorm", plain(m.BNAdapt)),
    Trace("tta/ccc_tent_lr0.00025", plain(m.Tent)),
    Trace("tta/ccc_tent_lr0.01", plain(m.Tent, 0.01)),
    Trace("tta/official_tent_adam_lr0.001", plain(m.Tent, optimizer=partial(Adam, lr=1e-3))),
    Trace("tta/ccc_eta_lr0.00025", plain(m.ETA)),
    Trace("tta/ccc_eta_lr0.002", plain(m.ETA, 0.002)),
    Trace("tta/ccc_eta_lr0.01", plain(m.ETA, 0.01)),
    Trace(
        "tta/official_eta_lr0.002_default_margin", plain(m.ETA, 0.002, entropy_factor=HALF_OF_MAX)
    ),
    Trace("tta/ccc_eata_lr0.00025_k8", plain(m.EATA), fitted=8),
    Trace("tta/ccc_eata_lr0.002_k8", plain(m.EATA, 0.002), fitted=8),
    Trace("tta/ccc_eata_lr0.002_k5_alpha50", plain(m.EATA, 0.002, beta=50.0), fitted=5),
    Trace("tta/ccc_rdumb_lr0.00025_reset10", plain(m.RDumb, every=10)),
    Trace("tta/ccc_rdumb_lr0.002_reset10", plain(m.RDumb, 0.002, every=10)),
    Trace("tta/ccc_rpl_lr0.0005", plain(m.RPL)),
    Trace("tta/ccc_rpl_lr0.01", plain(m.RPL, 0.01)),
    Trace("tta/ccc_conjugate_lr0.001", plain(m.CPL)),
    Trace("tta/ccc_conjugate_lr0.01", plain(m.CPL, 0.01)),
    Trace("tta/ccc_cotta_lr0.01_ema0.999", cotta(0.01, 0.999)),
    Trace("tta/ccc_cotta_lr0.1_ema0.9", cotta(0.1, 0.9)),
    Trace("tta/official_cotta_all_lr0.01_ema0.999", cotta(0.01, 0.999, everything=True)),
    Trace("tta/official_cotta_all_lr0.01_ema0.9", cotta(0.01, 0.9, everything=True)),
    Trace("tta/sar_lr0.00025", sar(2.5e-4)),
    Trace("tta/sar_lr0.01", sar(0.01)),
    Trace("tta/sar_lr0.05_reset", sar(0.05, 1.345)),
    Trace("tta/sar_lr0.3", sar(0.3)),
    Trace("sotta/esm_adam_lr0.001_batchstats", WithBatchStatistics),
    Trace("sotta/esm_adam_lr0.001_learnedstats0.2", WithoutMemory),
    Trace("sotta/esm_adam_lr0.01_learnedstats0.2", WithoutMemory),
    Trace("rotta/full_default", WithoutViews),
    Trace("petal/fim_perc0.03", PETAL),
    Trace("petal/fim_perc0.3_spw1e-3", PETAL),
    Trace("tta2/roid_lr0.00025_flip_noprior", roid(Mirrored, 2.5e-4, prior_correction=False)),
    Trace("tta2/roid_lr0.00025_identity", roid(Unchanged, 2.5e-4)),
    Trace("tta2/roid_lr0.0005_flip", roid(Mirrored, 5e-4)),
    Trace(
        "tta2/roid_lr0.0005_noconsistency_noprior",
        roid(m.ROID, 5e-4, consistency=False, prior_correction=False),
    ),
    Trace("tta2/roid_lr0.0005_noweight_noconsistency", roid(m.ROID, 5e-4, weighting=False)),
    Trace(
        "tta2/roid_lr0.001_identity_src0.9_noprior",
        roid(Unchanged, 1e-3, source_rate=0.1, prior_correction=False),
    ),
    Trace("tta2/cmf_lr0.00025_identity", roid(UnchangedCMF, 2.5e-4)),
    Trace(
        "tta2/cmf_lr0.0005_flip_noprior_q50",
        roid(MirroredCMF, 5e-4, noise=0.005 * 53120 / 224, prior_correction=False),
    ),
    Trace(
        "tta2/cmf_lr0.001_identity_gamma0.9",
        roid(UnchangedCMF, 1e-3, alpha=0.95, gamma=0.9, noise=0.02 * 38400 / 224),
    ),
    Trace("tta2/deyo_lr0.00025_patch4_plpd0.3", deyo(2.5e-4)),
    Trace("tta2/deyo_lr0.002_patch4_plpd0.2", deyo(2e-3, drop=0.2)),
    Trace("tta2/deyo_lr0.001_patch3_resize", deyo(1e-3, drop=0.2, patches=3)),
    Trace("tta2/deyo_lr0.001_pixel", deyo(1e-3, drop=0.2, destruction="pixels")),
    Trace(
        "tta2/deyo_lr0.001_occ", deyo(1e-3, drop=0.2, destruction="occlusion", occlusion=(4, 4, 8))
    ),
    Trace(
        "tta2/deyo_lr0.001_noreweight_plpdonly",
        deyo(1e-3, drop=0.2, filter_factor=1.0, weigh_entropy=False),
    ),
    Trace("tta2/asr_eta_lr0.00025", asr(m.ETA, 2.5e-4)),
    Trace("tta2/asr_eta_lr0.002", asr(m.ETA, 2e-3)),
    Trace(
        "tta2/asr_eta_lr0.002_r1_0.3_p0_100",
        asr(m.ETA, 2e-3, pull=100, start=0.2, keep=0.9, selectivity=0.3),
    ),
    Trace("tta2/asr_eta_lr0.01_a0_0.02", asr(m.ETA, 0.01, start=0.02)),
    Trace("tta2/asr_roid_lr0.00025_identity", asr(Unchanged, 2.5e-4)),
    Trace(
        "tta2/asr_roid_lr0.0005_identity_r1_0.5", asr(Unchanged, 5e-4, keep=0.8, selectivity=0.5)
    ),
    Trace("tta2/note_lr0.0001_official", note(1e-4)),
    Trace("tta2/note_lr0.001_mem32_k1", note(1e-3, k=1.0, bn_momentum=0.05, capacity=32, every=32)),
    Trace("tta2/petta_official_ce", plain(PeTTAWithoutViews), fitted=30),
    Trace(
        "tta2/petta_sce_l2_alpha0.05",
        plain(
            PeTTAWithoutViews,
            optimizer=partial(Adam, lr=2e-3),
            **{"teacher_rate": 0.05, "pull": 1.0, "anchor": 0.5, "capacity": 40},
            **{"regularizer": "l2", "symmetric": True},
        ),
        fitted=30,
    ),
    Trace("tta2/come_tent_lr0.00025", plain(m.Tent, come=True)),
    Trace("tta2/come_tent_lr0.01", plain(m.Tent, 0.01, come=True)),
    Trace("tta2/come_eta_lr0.002", plain(m.ETA, 0.002, come=True)),
    Trace("tta2/come_eata_lr0.002_k8", plain(m.EATA, 0.002, come=True), fitted=8),
    Trace(
        "tta2/come_eata_lr0.002_k8_alpha50", plain(m.EATA, 0.002, beta=50.0, come=True), fitted=8
    ),
]
# Compared in float64 alone, which determines them: see `check_measured`.
MEASURED = [
    Trace("tta3/rmt_lr0.01_flip_source_warm10", rmt(0.01, warm_up=320), fitted=30),
    Trace("tta3/rmt_lr0.01_flip_sourcefree", rmt(0.01, source_weight=0.0, warm_up=0), fitted=30),
    Trace(
        "tta3/rmt_lr0.02_identity_m0.9_source",
        rmt(0.02, flip=False, teacher_rate=0.1, projection=32, warm_up=0),
        fitted=30,
    ),
    Trace("tta3/santa_lr0.01_flip", santa(0.01), fitted=30),
    Trace("tta3/santa_lr0.05_identity_proj32", santa(0.05, flip=False, projection=32), fitted=30),
    Trace("tta3/santa_single_lr0.001_flip", santa(1e-3), fitted=30),
    Trace("tta3/gtta_lr1e-5_mixup", gtta(m.GTTA, 1e-5), fitted=30),
    Trace("tta3/gtta_lr0.001_mixup", gtta(m.GTTA, 1e-3), fitted=30),
    Trace("tta3/gtta_nothing_selected_lr0.0002", gtta(NothingSelected, 2e-4), fitted=30),
    Trace("tta3/adacontrast_lr0.0002_queue512", adacontrast(2e-4, 512)),
    Trace("tta3/adacontrast_lr0.001_queue1024", adacontrast(1e-3, 1024)),
    Trace(
        "tta3/adacontrast_lr0.002_queue96_euclid_k5",
        adacontrast(2e-3, 96, distance="euclidean", neighbours=5),
    ),
    Trace("tta3/memo_lr0.00025_n64", memo(2.5e-4, 64)),
    Trace("tta3/memo_lr0.005_n8_alpha0.1", memo(5e-3, 8)),
    Trace("tta3/memo_continual_lr0.00025_n8", memo(2.5e-4, 8, episodic=False)),
    Trace("tta3/rem_adam0.001_m0.1_n3", rem(1e-3)),
    Trace(
        "tta3/rem_adam0.01_m0.2_n4_lamb2_margin0.05",
        rem(0.01, mask=0.2, levels=4, rank_weight=2.0, margin=0.05),
    ),
    Trace("tta3/rem_single_adam0.0002", rem(2e-4)),
    Trace("tta3/memo_n1_steps3", memo(2e-3, 1, steps=3)),
    Trace("tta4/neo_bn", plain(m.NEO)),
    Trace("tta4/neo_continual_vit_a0.1", plain(m.NEO, alpha=0.1)),
    Trace("tta4/neo_vit_reset12", plain(m.NEO)),
    Trace("tta4/t3a_bn40_M5", plain(m.T3A, supports=5)),
    Trace("tta4/t3a_bn_M20", plain(m.T3A, supports=20)),
    Trace("tta4/t3a_neo_vit_K1", plain(m.T3A, supports=1)),
    Trace("tta4/t3a_vit_M100", plain(m.T3A)),
    Trace("tta4/shot_im_bn_lr0.01", plain(m.SHOT, 0.01)),
    Trace("tta4/shot_im_vit_lr0.001", plain(WithoutNamesOfClassifiers, 1e-3)),
    Trace("tta4/shot_ttab_bn_lr0.001", ttab(1e-3)),
    Trace("tta4/shot_ttab_vit_lr0.01_thr0.99", ttab(0.01, confidence=0.99)),
    Trace("tta4/zerosiam_bn_lr0.0025_p0.025", plain(m.ZeroSiam)),
    Trace("tta4/zerosiam_vit_lr0.005_p0.005", plain(m.ZeroSiam, 5e-3, predictor_rate=1.0)),
    Trace("tta4/zerosiam_vit_lr0.05_p0.1", plain(m.ZeroSiam, 0.05, predictor_rate=2.0)),
    Trace("tta4/pea_bn40_m0.02_orig_group32", pea()),
    Trace("tta4/pea_bn40_m0.02_3views_micro3", pea(views=True)),
    Trace("tta4/pea_vit_m0.02_3views", plain(OfTransformer, group=768, jump=4.0, views=True)),
    Trace("tta4/lcotta_bn_lr0.00015_n3_w6_step2", lcotta(1.5e-4, directions=3, stored=6, every=2)),
    Trace("tta4/lcotta_bn_lr0.003_n3_w5_step2", lcotta(3e-3, directions=3, stored=5, every=2)),
    Trace(
        "tta4/lcotta_vit_lr0.0005_n4_w8_step1",
        lcotta(5e-4, directions=4, stored=8, every=1, entropy_factor=0.95, redundancy=0.7),
    ),
]
MEASURED = [trace._replace(dtype=torch.float64) for trace in MEASURED]
DOUBLE = [trace._replace(dtype=torch.float64) for trace in SINGLE]
DOUBLE += [Trace("rotta/full_f64_nu0.02_K50", WithoutViews, torch.float64)]


TRACES = {trace.id: trace for trace in (*SINGLE, *DOUBLE)}
# m.RoTTA multiplies rounding errors in float64, too, and of this official run there is but a float32 one.
TRACES.pop("rotta/full_default float64")
# Each run in float64, where rounding leaves more steps determined than in float32 ...
COMPARED = [trace for trace in TRACES.values() if trace.dtype == torch.float64]
# ... and in float32 those whose float64 run is official: it has no losses.
UNSTEADY = "tta/sar_lr0.3"  # fewer than 5 steps of it are determined in float32
ROUGH = [
    trace
    for trace in SINGLE
    if trace.name == "rotta/full_default"
    or ("logits_sub_f64" in trace.file and trace.name != UNSTEADY)
]
