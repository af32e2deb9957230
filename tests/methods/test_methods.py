"""Every method of the table on every kind of backbone, held to what all methods promise."""

import math
import re
import warnings
from collections.abc import Callable
from functools import cache, partial
from inspect import getdoc, signature
from typing import Any

import pytest
import timm
import torch
from common import tiny_net
from lightning.pytorch.cli import LightningArgumentParser
from table import FIRST, NET_OF, TABLE, on_every_net, quiet, sgd
from timm.layers import BatchNormAct2d
from torch import Tensor, nn
from torch.optim import SGD
from torchvision.models import VisionTransformer as VisionModel
from torchvision.transforms.v2 import functional as tv

from holdfast import HoldfastError, methods
from holdfast.benchmarks.presets import CONFIGS, preset, presets
from holdfast.features import classifier
from holdfast.methods import testing
from holdfast.methods.foa import drawn, evolved, first_distribution
from holdfast.methods.functional import likelihood_ratio, redundancy_limit, softmax_entropy
from holdfast.methods.parts import augmix
from holdfast.methods.parts import views as views_module
from holdfast.methods.parts.norm import NORMS
from holdfast.methods.parts.teacher import TeacherMethod

# ---- what all methods promise ---------------------------------------------------------------------


@on_every_net
def test_promises(name: str, net: str) -> None:
    """On the first network that a method takes, everything; on others what depends on their layers.

    `check_method` checks the same, on all networks and memory over more steps. What a step changes is
    checked more closely below.
    """
    first, wrong = (name, net) in FIRST, {}
    for check, entry in testing.CHECKS.items():
        if check == "changes" or not (first or check == "unusual_images"):
            continue
        if net != "bn" and entry.on_bn_only:
            continue
        try:
            testing.verify(
                check, TABLE[name].make, net, **({"steps": 20} if check == "memory" else {})
            )
        except HoldfastError as error:
            wrong[check] = str(error)
    expected = {"predict_foretells"} if first and not TABLE[name].foretells else set()
    assert wrong.keys() == expected, wrong


class Random(methods.Tent):
    """Draws random numbers that depend on what else draws some."""

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return super().loss(logits, images) * torch.rand(())


class Forgetful(methods.Tent):
    """Keeps state that neither resets nor checkpoints know of, and that keeps a gradient graph alive."""

    total: Any = 0.0

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        self.total = self.total + logits.std()
        return super().loss(logits, images) * self.total.detach()


class Learning(methods.Tent):
    """Learns in `predict_by`, so also when it predicts."""

    def predict_by(self, network: Any, images: Tensor) -> Tensor:
        self.state["seen"] = self.state.get("seen", 0) + 1
        return super().predict_by(network, images) / self.state["seen"]


class Unbounded(methods.Tent):
    """Divides by what may be zero."""

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return super().loss(logits, images) / images.std((1, 2, 3)).min()


@pytest.mark.parametrize(
    ("kind", "checks"),
    [
        (Random, {"deterministic", "reset", "resume"}),
        (Forgetful, {"reset", "resume", "memory"}),
        (Learning, {"predict_changes_nothing", "predict_foretells"}),
        (Unbounded, {"unusual_images"}),
        (partial(methods.Tent, optimizer=partial(SGD, lr=0.0)), {"changes"}),
    ],
)
def test_a_broken_promise_is_noticed(kind: Any, checks: set[str]) -> None:
    for check in checks:
        with pytest.raises(HoldfastError, match=r"\. .+\.$"):
            testing.verify(check, kind, "bn", **({"steps": 40} if check == "memory" else {}))


def test_a_method_that_takes_no_network_is_refused() -> None:
    with pytest.raises(HoldfastError, match=r"refuses all networks: .*Choose a backbone"):
        testing.check_method(methods.REM, nets=["bn"])


# ---- what a step does -----------------------------------------------------------------------------


@quiet
@on_every_net
def test_changes_what_it_should_and_nothing_else(name: str, net: str) -> None:
    row = TABLE[name]
    method = row.make(testing.NETS[net]())
    before = testing.tensors(method)
    for images in testing.image_batches(3):
        method.adapt(images)
    networks = {"backbone": method.backbone}
    if isinstance(method, TeacherMethod):
        networks["teacher"] = method.teacher
    expected = set()
    for prefix, network in networks.items():
        for layer_name, layer in network.named_modules():
            place = layer_name.removeprefix("visual.")
            top = row.skips_top and place.startswith(("blocks.3", "norm"))
            is_norm = isinstance(layer, NORMS) and not top
            for key, _ in layer.named_parameters(recurse=False):
                of_classifier = row.changes == "features" and layer is classifier(network)
                all_learn = row.changes.startswith(("all", "features")) and not of_classifier
                if all_learn or (row.changes.startswith("affine") and is_norm):
                    expected.add(f"{prefix}.{layer_name}.{key}".replace("..", "."))
            for key, _ in layer.named_buffers(recurse=False):
                if row.changes.endswith("statistics") and is_norm and key != "num_batches_tracked":
                    expected.add(f"{prefix}.{layer_name}.{key}")
    moved = {
        n for n in testing.differing(before, testing.tensors(method)) if "num_batches" not in n
    }
    assert {n for n in moved if n.startswith(("backbone.", "teacher."))} == expected
    assert (method.step_count, method.steps_since_reset, method.reset_count) == (3, 3, 0)


def test_a_single_image_warns_where_its_statistics_are_used() -> None:
    image = torch.rand(1, 3, 8, 8)
    with pytest.warns(match="Tent.* single image"):
        methods.Tent(tiny_net()).adapt(image)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*single image")
        for name in ("Source", "RoTTA", "SoTTA", "BNAdapt-prior"):
            TABLE[name].make(tiny_net()).adapt(image)


@quiet
def test_single_image_where_a_channel_is_a_single_value() -> None:
    net = nn.Sequential(*tiny_net()[:8], nn.BatchNorm1d(16), nn.Linear(16, 5))
    single, double = methods.Tent(net, sgd), methods.Tent(net, sgd)
    images = torch.rand(1, 3, 8, 8)
    for _ in range(3):
        logits = single.adapt(images)
        assert torch.equal(logits, double.adapt(images.repeat(2, 1, 1, 1))[:1])
        assert logits.isfinite().all()


def test_the_optimizer_is_the_same_argument_everywhere() -> None:
    for name, net in FIRST:
        make = TABLE[name].make
        method = (make.func if isinstance(make, partial) else make)(
            testing.NETS[net](), optimizer=partial(SGD, lr=0.125)
        )
        assert method.optimizer is None or method.optimizer.defaults["lr"] == 0.125


# ---- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name, kind in vars(methods).items() if isinstance(kind, type)]
)
def test_every_argument_is_documented(name: str) -> None:
    kind = getattr(methods, name)
    owner = next(each for each in kind.__mro__ if "__init__" in vars(each))
    described = dict(re.findall(r"^ {4}(\**\w+): (.*(?:\n {8}.*)*)", getdoc(owner) or "", re.M))
    arguments = signature(owner).parameters.values()
    wanted = {"**kwargs" if a.kind is a.VAR_KEYWORD else a.name for a in arguments}
    once = {"backbone", "optimizer", "**kwargs"}  # described by the base class
    assert wanted - once == described.keys() - once


def without_running_statistics() -> nn.Module:
    net = tiny_net()
    net[1] = nn.BatchNorm2d(8, track_running_stats=False)
    return net


@pytest.mark.parametrize(
    ("names", "make", "sentence"),
    [
        (
            ("Tent", "SAR", "SLR", "CoTTA", "RoTTA"),
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 5)),
            "normalisation layers, and this backbone has none",
        ),
        (
            ("SoTTA", "RoTTA", "NOTE", "BNAdapt-prior"),
            without_running_statistics,
            "running statistics",
        ),
        (
            ("REM", "FOA"),
            lambda: timm.create_model("swin_tiny_patch4_window7_224", embed_dim=24),
            "Choose a backbone",
        ),
    ],
)
def test_refuses_backbones_that_make_no_sense(names: Any, make: Any, sentence: str) -> None:
    for name in names:
        with pytest.raises(HoldfastError, match=sentence):
            TABLE[name].make(make())
    for name, row in TABLE.items():
        for net in row.refuses:
            with pytest.raises(HoldfastError, match="Choose a backbone"):
                TABLE[name].make(testing.NETS[net]())


def test_refuses_fused_normalisation() -> None:
    class BatchNormReLU(nn.BatchNorm2d):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input).relu()

    net = tiny_net()
    net[1] = BatchNormReLU(8)
    with pytest.raises(HoldfastError, match="BatchNormReLU, which does more than normalise"):
        methods.RoTTA(net)


@pytest.mark.parametrize("name", ["RoTTA", "BNAdapt-prior", "BNAdapt-alpha"])
def test_layers_that_normalise_drop_and_act(name: str) -> None:
    """timm's do all three in one; the same as three layers give the same bits."""
    make = partial(methods.BNAdapt, alpha=0.1) if name == "BNAdapt-alpha" else TABLE[name].make

    def fused(width: int) -> nn.Module:
        return BatchNormAct2d(width, act_layer=nn.PReLU, drop_layer=nn.Dropout)

    def apart(width: int) -> nn.Module:
        return nn.Sequential(nn.BatchNorm2d(width), nn.Dropout(), nn.PReLU())

    nets = []
    for norm in (fused, apart):
        net = tiny_net()
        net[1], net[2] = norm(8), nn.Identity()
        net[4], net[5] = norm(16), nn.Identity()
        torch.manual_seed(1)
        for parameter in net.parameters():
            nn.init.normal_(parameter, std=0.3)
        nets.append(make(net))
    for images in torch.rand(6, 16, 3, 8, 8):
        first, second = (method.adapt(images) for method in nets)
        assert torch.equal(first, second)
    assert any((p != q).any() for p, q in nets[0].parameters_with_source()) == (name == "RoTTA")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda loss: loss.detach(), "Own.loss .*without a gradient"),
        (lambda loss: loss.repeat(3), r"Own.loss .*\[3\]"),
        (float, "Own.loss returned float"),
    ],
)
def test_a_loss_that_no_step_can_be_made_of_is_refused(wrong: Any, sentence: str) -> None:
    class Own(methods.Tent):
        def loss(self, logits: Tensor, images: Tensor) -> Any:
            return wrong(super().loss(logits, images))

    with pytest.raises(HoldfastError, match=sentence):
        Own(tiny_net()).adapt(torch.rand(4, 3, 8, 8))


# ---- presets --------------------------------------------------------------------------------------


@cache
def parser() -> LightningArgumentParser:
    """What LightningCLI reads a method with."""
    made = LightningArgumentParser()
    made.add_lightning_class_args(methods.TTAMethod, "model", subclass_mode=True)
    return made


METHODS = (CONFIGS / "methods.yaml").read_text()


def parse(name: str) -> methods.TTAMethod:
    """The method that LightningCLI makes of a preset, on a tiny backbone."""
    net, settings = NET_OF[name.partition("-")[0]], preset("methods", name)
    backbone = {"class_path": f"{net.__module__}.{net.__name__}"}
    settings["init_args"] = {**settings.get("init_args", {}), "backbone": backbone}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parser().instantiate_classes(parser().parse_object({"model": settings})).model


@pytest.mark.parametrize("name", presets("methods"))
@quiet
def test_preset(name: str) -> None:
    method = parse(name)
    assert name.startswith(type(method).__name__.lower())
    said = re.search(rf"^# .*\n{re.escape(name)}:$", METHODS, re.M)
    assert said, "say where the values come from"
    if "-" in name:
        return
    # The preset that is called like its method holds nothing but the defaults.
    default = type(method)(NET_OF[name]())
    if isinstance(default, methods.ETA):  # whose default depends on the number of classes
        default.redundancy = redundancy_limit(1000)
    groups = [m.optimizer.param_groups if m.optimizer else [] for m in (method, default)]
    for ours, theirs in zip(*groups, strict=True):
        assert {**ours, "params": 0} == {**theirs, "params": 0}
    numbers = [
        {k: v for k, v in vars(m).items() if isinstance(v, bool | int | float)}
        for m in (method, default)
    ]
    assert numbers[0] == numbers[1]


# ---- parts ----------------------------------------------------------------------------------------


def test_blended_statistics() -> None:
    net, images = tiny_net(), torch.rand(6, 3, 8, 8)
    for layer in (net[1], net[4]):
        layer.running_mean.uniform_()
    batch, source = (kind(net).adapt(images) for kind in (methods.BNAdapt, methods.Source))
    assert torch.allclose(methods.BNAdapt(net, alpha=1.0).adapt(images), batch, atol=1e-5)
    assert torch.allclose(methods.BNAdapt(net, alpha=0.0).adapt(images), source, atol=1e-5)
    half = methods.BNAdapt(net, alpha=0.5).adapt(images)
    assert torch.equal(methods.BNAdapt(net, prior=6).adapt(images), half)
    assert not torch.allclose(half, batch, atol=1e-3)


def test_likelihood_ratio() -> None:
    logits = torch.randn(4, 7, dtype=torch.float64)
    p = logits.softmax(1)
    expected = -(p * torch.log(p / (1 - p))).sum(1)
    torch.testing.assert_close(likelihood_ratio(logits), expected)
    certain = torch.tensor([[100.0, 0.0, 0.0]], requires_grad=True)  # p rounds to 1
    loss = likelihood_ratio(certain).sum()
    assert loss.item() == pytest.approx(-100 + math.log(2))
    loss.backward()
    torch.testing.assert_close(certain.grad, torch.tensor([[-1.0, 0.5, 0.5]]))


@pytest.mark.parametrize("size", [(32, 32), (24, 40)])
def test_views_move_and_blur_as_torchvision_does(size: tuple[int, int]) -> None:
    images, (height, width) = torch.rand(2, 3, *size), size
    for degrees, shift, scale, sigma in ((10.0, [3, -2], 1.07, 0.4), (-13.0, [-4, 3], 0.92, 0.2)):
        padded = tv.pad(images, [width // 2, height // 2], padding_mode="edge")
        moved = tv.affine(
            padded, degrees, shift, scale, [0.0, 0.0], interpolation=tv.InterpolationMode.BILINEAR
        )
        expected = tv.center_crop(tv.gaussian_blur(moved, [5, 5], [sigma, sigma]), [height, width])
        ours = views_module.blur(views_module.move(images, degrees, shift, scale, 2), sigma)
        torch.testing.assert_close(ours, expected, atol=1e-4, rtol=0)


def test_a_view_is_the_same_for_all_images_but_for_the_noise() -> None:
    image = torch.rand(1, 3, 16, 16)
    view = views_module.random_view(image.repeat(3, 1, 1, 1), torch.Generator().manual_seed(0))
    assert (view[0] - view[1]).abs().max() < 0.06
    assert (view[0] - image).abs().max() > 0.1
    assert 0 <= view.min() <= view.max() <= 1


def test_cotta_looks_at_views_only_if_the_source_is_unsure() -> None:
    net, images = tiny_net(), torch.rand(6, 3, 8, 8)
    plain = methods.BNAdapt(net).predict(images)
    assert torch.equal(methods.CoTTA(net, threshold=0.0).predict(images), plain)
    unsure = methods.CoTTA(net, threshold=1.0, views=5)
    assert not torch.equal(unsure.predict(images), plain)
    generator, single = unsure.generator("views"), []
    for _ in range(5):
        single.append(methods.BNAdapt(net).predict(views_module.random_view(images, generator)))
    torch.testing.assert_close(unsure.predict(images), torch.stack(single).mean(0))


def test_augmix_operations() -> None:
    """Against torchvision's, and their effects on pixels."""
    images, level, left = torch.rand(1, 3, 60, 60), torch.ones(1), -torch.ones(1)

    def of(operation: int, sign: Tensor = left) -> Tensor:
        return augmix.operated(images, torch.tensor([operation]), level, sign)

    turned = tv.rotate(images, 3.0, tv.InterpolationMode.BILINEAR)
    found = [of(augmix.ROTATE, sign) for sign in (left, -left)]
    assert min((f - turned)[..., 3:-3, 3:-3].abs().max() for f in found) < 1e-3
    assert torch.allclose(of(augmix.MOVE_X)[..., 2:], images[..., :-2], atol=1e-4)
    assert torch.allclose(of(augmix.MOVE_Y, -left)[:, :, :-2], images[:, :, 2:], atol=1e-4)
    sheared = of(augmix.SHEAR_X, -left)[0, 0, 0, 1:]  # by 0.03 x 29.5 pixels in the first row
    share = 0.03 * 29.5
    expected = (1 - share) * images[0, 0, 0, 1:] + share * images[0, 0, 0, :-1]
    assert torch.allclose(sheared, expected, atol=1e-3)
    assert torch.equal(of(1), tv.equalize(images))
    assert of(2).unique().numel() <= 16
    assert torch.equal(of(3), torch.where(images >= 231 / 255, 1 - images, images))
    assert torch.equal(of(-1), images)


def test_augmix_views_differ_and_stay_in_range() -> None:
    image = torch.rand(1, 3, 16, 24)
    views = augmix.augmix_views(image.expand(40, -1, -1, -1), torch.Generator().manual_seed(0))
    assert views.shape == (40, 3, 16, 24)
    assert 0 <= views.min() <= views.max() <= 1
    apart = (views[:, None] - views[None]).abs().amax((2, 3, 4)) + torch.eye(40)
    assert apart.min() > 0.05
    assert (views - image).abs().amax((1, 2, 3)).min() > 0.05


def test_without_a_seed_runs_are_those_of_seed_0() -> None:
    """What a method and its estimators draw, in each process; PyTorch seeds itself from entropy."""
    drawn = []
    for seed in (
        torch.seed,
        torch.seed,
        partial(torch.manual_seed, 0),
        partial(torch.manual_seed, 1),
    ):
        seed()
        drawn.append(torch.rand(3, generator=methods.Tent(tiny_net()).generator("AETTA")))
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[3])


def test_rmts_warm_up_starts_over_with_the_source_images() -> None:
    """Five steps over three batches are those over these and the first two again (official code)."""
    net, images = tiny_net(), torch.rand(5, 4, 3, 8, 8)
    images[3:] = images[:2]
    pairs = [(part, torch.arange(4)) for part in images]
    options = {"source_images": 20, "projection": 8, "warm_up": 20, "replay": 12}
    short, long = (methods.RMT(net, sgd, **options) for _ in range(2))
    short.fit(pairs[:3])
    long.fit(pairs)
    assert short.learnt["drawn"] == long.learnt["drawn"] == 20
    for one, other in zip(short.learnt["weights"], long.learnt["weights"], strict=True):
        assert torch.equal(one, other)


def test_memo_begins_each_image_at_the_source() -> None:
    net, images = tiny_net(), torch.rand(5, 3, 8, 8)
    method, other = (methods.MEMO(net, sgd, views=4) for _ in range(2))
    rows = method.adapt(images)
    assert torch.equal(other.adapt(images.flip(0)[-1:]), rows[:1]), "whatever comes with it"
    plain = methods.MEMO(net, partial(SGD, lr=0.0), views=4).adapt(images)
    assert (rows - plain).abs().max() > 1e-3, "scored after the step"
    method.reset()
    assert testing.differing(testing.tensors(method), testing.tensors(methods.MEMO(net))) == set()


def test_moving_average_of_statistics() -> None:
    layer = nn.BatchNorm2d(3, momentum=0.25)
    method = methods.BNEMA(nn.Sequential(layer, nn.Flatten(), nn.Linear(192, 2)), alpha=0.25)
    first, second = torch.rand(2, 6, 3, 8, 8)
    assert torch.equal(method.predict(first), method.adapt(first))
    method.adapt(second)
    for images in (first, second):
        layer(images)
    moving = dict(method.backbone.named_buffers())
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(moving[f"0.{name}"], dict(layer.named_buffers())[name])


@pytest.mark.parametrize(
    "make",
    [
        partial(timm.create_model, "vit_tiny_patch16_224", num_classes=5, depth=4),
        partial(timm.create_model, "deit_tiny_distilled_patch16_224", num_classes=5, depth=4),
        partial(VisionModel, 32, 8, 4, 2, 16, 32, num_classes=5),
    ],
    ids=["timm", "distilled", "torchvision"],
)
def test_rem_masks_what_the_class_token_attends_to(make: Callable[[], nn.Module]) -> None:
    network: Any = methods.normalised(make().eval(), (0.5,) * 3, (0.5,) * 3)
    for layer in network.modules():
        if isinstance(layer, nn.Linear) and layer.out_features == 5:
            nn.init.normal_(layer.weight)  # torchvision begins with zeros
    method = methods.REM(network, mask=0.25, levels=2)
    size = 32 if isinstance(network[-1], VisionModel) else 224
    images = torch.rand(2, 3, size, size)
    with method.tokens.attended() as seen:
        plain = method.predict(images)
    assert torch.allclose(plain, methods.Source(network).predict(images), atol=1e-6)
    (weights,) = seen
    patches = 16 if size == 32 else 196
    assert weights.shape == (2, patches)
    assert 0 < weights.min() <= weights.sum(1).max() < 1, "the rest is the prefix tokens'"
    everything = torch.arange(patches).expand(2, -1).flip(1)
    with method.tokens.only(everything):
        assert torch.allclose(method.predict(images), plain, atol=1e-5), "in any order"
    with torch.no_grad():
        first, second = method.masked(images)
    assert torch.equal(first, plain)
    assert (first - second).abs().max() > 1e-4
    names = [n for n, p in method.backbone.named_parameters() if p.requires_grad]
    assert names
    assert all("3" not in name and ("blocks" in name or "layers" in name) for name in names), names


def test_foa_prompts_and_shifts() -> None:
    """Two steps by hand."""
    network = testing.vision_transformer()
    method = methods.FOA(network, prompts=2, population=4, weight=1e6, momentum=0.25)
    first, second, source = torch.rand(3, 6, 3, 8, 8)
    method.fit([source])
    with torch.no_grad():
        _, tokens, found = method.answers(source, method.state["best"][:0])
        assert torch.equal(tokens[:, -16:], network.blocks(network.pos_drop(
            network._pos_embed(network.patch_embed(source))))[:, 0])  # fmt: skip
        torch.testing.assert_close(network.head(found), network(source))
    assert torch.equal(method.learnt["mean"], found.mean(0))
    logits = method.adapt(first)
    best = method.state["best"]
    with torch.no_grad():
        expected, tokens, seen = method.answers(first, best)
    assert torch.equal(logits, expected), "nothing to shift by on the first batch"
    apart = (tokens.mean(0) - method.learnt["tokens_mean"]).square().sum()
    apart += (tokens.std(0, correction=0) - method.learnt["tokens_deviation"]).square().sum()
    fitness = softmax_entropy(expected).sum() + 1e6 * 6 / 64 * apart
    assert method.trace["loss"] == pytest.approx(float(fitness), rel=1e-4)
    assert torch.equal(method.state["mean"], seen.mean(0))
    logits = method.adapt(second)
    with torch.no_grad():
        expected, _, again = method.answers(second, method.state["best"])
        shifted = again + method.learnt["mean"] - seen.mean(0)
        head = network.head(shifted)
    torch.testing.assert_close(logits, head, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(method.state["mean"], 0.75 * seen.mean(0) + 0.25 * again.mean(0))


def test_the_evolution_strategy_finds_a_minimum() -> None:
    """Of an ellipsoid with axes 1 to 30 that are not the coordinates': as fast as CMA-ES should."""
    generator, size = torch.Generator().manual_seed(0), 8
    rotation, _ = torch.linalg.qr(torch.randn(size, size, generator=generator).double())
    lengths = torch.logspace(0, 1.5, size).double()
    minimum = torch.linspace(-2, 2, size).double()
    state = first_distribution(size, torch.zeros((), dtype=torch.float64))
    for _ in range(500):
        points = drawn(state, 10, generator)
        losses = (((points - minimum) @ rotation) * lengths).square().sum(1)
        state = evolved(state, points, losses)
    torch.testing.assert_close(state["mean"], minimum, atol=1e-3, rtol=0)
    scale = torch.linalg.eigvalsh(state["covariance"]).sqrt()
    assert 10 < scale[-1] / scale[0] < 100, "the covariance has learnt the axes, whose ratio is 32"
