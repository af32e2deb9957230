"""A stream divided over two ranks gives what one device gives: every method, and runs in a Trainer."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from common import TensorStream, plain_trainer, tiny_net, without_times
from lightning.pytorch import Callback, LightningDataModule, Trainer, seed_everything
from processes import FORK
from table import FIRST, TABLE, quiet
from torch import Tensor, nn
from torch.utils.data import DataLoader

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.benchmarks.cli import main
from holdfast.datamodules import CCC, Batch, Glyphs
from holdfast.methods import ROID, BNAdapt, CoTTA, Tent, TTAMethod
from holdfast.methods.checks import check_trainer
from holdfast.methods.distributed import Parts, batch_size
from holdfast.methods.testing import compare, save_rank

BATCH = 13  # does not divide evenly
RUN = (
    "test --model Tent --model.backbone digits --progress false --data CCC --data.source Digits "
    "--data.calibration digits --data.difficulty 30 --data.quality null --data.speed 20 "
    "--data.images 65 --data.batch_size 6 --data.num_workers 0 --trainer.accelerator cpu "
    "--trainer.precision 64-true --out"
)


class Damaged(Glyphs):
    """Glyphs that stop with a sentence at images which only one of the ranks comes to."""

    def load(self, index: Tensor, seed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if os.environ.get("LOCAL_RANK") == "1":
            raise HoldfastError("damaged.")
        return super().load(index)


def fixed(images: int) -> Tensor:
    return torch.rand(images, 3, 8, 8, generator=torch.Generator().manual_seed(1))


class Plain(LightningDataModule):
    """A map-style data set of batches' samples, as a user may have it."""

    def test_dataloader(self) -> DataLoader:
        images, numbers = fixed(21), torch.arange(21)
        samples = [Batch(image, n % 5, n, n) for image, n in zip(images, numbers, strict=True)]
        return DataLoader(samples, batch_size=8)  # type: ignore[arg-type]


def ccc(images: int, source: Glyphs | None = None, **kwargs: Any) -> CCC:
    facts = {"difficulty": 40, "speed": 30, "corruptions": ("gaussian_noise", "contrast")}
    facts |= {"quality": None, "batch_size": BATCH, "num_workers": 0, **kwargs}
    return CCC(source or Glyphs(), images=images, **facts)


def random_images() -> TensorStream:
    return TensorStream(fixed(42).unflatten(0, (6, 7)))


def tiny(kind: type[TTAMethod], norm: Any = nn.BatchNorm2d, **kwargs: Any) -> TTAMethod:
    net = tiny_net()
    net[1], net[4] = norm(8), norm(16)
    return kind(net, partial(torch.optim.SGD, lr=0.05, momentum=0.9), **kwargs)


def estimators() -> list[Callback]:
    flips = cb.WeightedFlips(f="resnet50", held=20, stop=5, any_backbone=True, at_once=7)
    own = [cb.SoftmaxScore(), cb.GDE(), cb.SrcValid(Glyphs("calibration"), 31), cb.AETTA(passes=3)]
    return [*own, cb.AdvPerturb(), flips, cb.AccuracyReset("SoftmaxScore", floor=0.05)]


class Case(NamedTuple):
    method: Callable[[], TTAMethod]
    data: Callable[[], LightningDataModule]
    watchers: Callable[[], list[Callback]] = list


group, unsure = partial(nn.GroupNorm, 4), {"threshold": 1.1, "views": 3}
CASES = {
    "estimators": Case(partial(Tent, "glyphs"), partial(ccc, 6 * BATCH), estimators),
    "data sets": Case(
        partial(BNAdapt, "glyphs"),
        partial(ccc, 8 * BATCH),
        lambda: [cb.DatasetEstimates(Glyphs("calibration"), 90, 70)],
    ),
    "views": Case(partial(tiny, CoTTA, everything=True, **unsure), random_images),
    "views at once": Case(partial(tiny, CoTTA, group, **unsure), random_images),
    "FisherRestore": Case(partial(tiny, Tent), random_images, lambda: [cb.FisherRestore(0.3)]),
    "ASR": Case(partial(ROID, "glyphs", recovery=cb.ASR(start=0.999)), partial(ccc, 8 * BATCH)),
    "map-style data": Case(partial(tiny, Tent), Plain),
    "one image over": Case(partial(Tent, "glyphs"), partial(ccc, 2 * BATCH + 1, num_workers=1)),
    "fewer than ranks": Case(partial(Tent, "glyphs"), partial(ccc, 1)),
    "on the device": Case(partial(Tent, "glyphs"), partial(ccc, 30, on_device=True)),
}


class Rows(Callback):
    """What each batch was, and what came of it."""

    def __init__(self, watchers: list[Callback]) -> None:
        self.watchers = watchers
        self.rows: list[Any] = []

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, *_: Any
    ) -> None:
        columns = [c.tolist() for c in (batch.index, batch.segment, outputs["correct"])]
        estimates = [getattr(watcher, "latest", None) for watcher in self.watchers]
        trace = {k: float(v) for k, v in pl_module.trace.items()}
        self.rows.append([columns, estimates, pl_module.reset_count, trace])


def outcome(case: Case, **options: Any) -> dict[str, Any]:
    """Weights, rows and metrics of a run in float64, on one device or on several."""
    seed_everything(0, verbose=False)
    method, watchers = case.method().double(), case.watchers()
    rows, sizes = Rows(watchers), []
    method.backbone.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    trainer = plain_trainer(**options, callbacks=[*watchers, rows])
    trainer.test(method, datamodule=case.data(), verbose=False)
    assert not method.divides
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    weights = [tensor.detach().double() for tensor in method.restorable_tensors()]
    return {"weights": weights, "rows": rows.rows, "metrics": metrics, "most": max(sizes)}


def work(rank: int, port: int, folder: Path) -> None:
    """What each rank does: the methods in plain loops, then the cases and the command in Trainers."""
    multiprocessing.set_start_method("fork", force=True)  # of loaders' workers, as in a user's rank
    save_rank(rank, {name: (TABLE[name].make, net) for name, net in FIRST}, str(folder))
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": "0"}
    os.environ |= {"LOCAL_RANK": str(rank)}  # so that Lightning starts no further process
    divided = {"devices": 2, "strategy": "sync"}
    found: dict[str, Any] = {name: outcome(case, **divided) for name, case in CASES.items()}
    with pytest.raises(HoldfastError, match="damaged"):
        outcome(Case(partial(Tent, "glyphs"), partial(ccc, 30, Damaged())), **divided)
    more = f"{folder / 'run'} --trainer.devices 2 --trainer.strategy sync"
    found["exit"] = main(f"{RUN} {more}".split())
    torch.save(found, folder / f"cases{rank}.pt")
    torch.distributed.barrier()


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the results of both ranks."""
    folder, port = tmp_path_factory.mktemp("ranks"), free_port()
    processes = [FORK.Process(target=work, args=(rank, port, folder)) for rank in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
        if process.exitcode is None:
            process.kill()
    assert [process.exitcode for process in processes] == [0, 0]
    return folder


@quiet
@pytest.mark.parametrize(("name", "net"), FIRST)
def test_every_method_on_two_ranks(name: str, net: str, ranks: Path) -> None:
    first, second = (torch.load(ranks / f"{rank}.pt")[name] for rank in (0, 1))
    assert apart(first, second) < 1e-9
    compare(first, TABLE[name].make, net)


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_do_what_one_device_does(name: str, ranks: Path) -> None:
    first, second = (torch.load(ranks / f"cases{rank}.pt")[name] for rank in (0, 1))
    single = outcome(CASES[name])
    # The Trainer's metrics are float32: a unit in the last place.
    for part, limit in {"weights": 1e-8, "rows": 1e-8, "metrics": 2e-7}.items():
        assert apart(first[part], second[part]) == 0
        assert apart(single[part], first[part]) < limit, part
    seen = [index for (columns, *_) in first["rows"] for index in columns[0]]
    assert seen == list(range(getattr(CASES[name].data(), "images", len(seen))))
    if name == "estimators":
        assert (first["most"], second["most"]) < (single["most"], single["most"])


def test_the_command_on_two_ranks(ranks: Path, tmp_path: Path) -> None:
    assert torch.load(ranks / "cases0.pt")["exit"] == torch.load(ranks / "cases1.pt")["exit"] == 0
    assert main([*RUN.split(), str(tmp_path / "run")]) == 0
    rows = [without_times(folder / "run") for folder in (ranks, tmp_path)]
    assert len(rows[0]) == 11
    assert apart(*rows) < 1e-8


def test_parts_of_a_batch_end_where_their_with_does() -> None:
    layer, images = nn.BatchNorm2d(3).eval(), torch.rand(4, 3, 2, 2)
    alone = layer(images)
    with Parts([3, 5]):
        with Parts([1, 1]):
            assert batch_size(images) == 2
        assert batch_size(images) == 8
        assert torch.equal(layer(images), alone)  # uses no batch statistics
    assert batch_size(images) == 4


def test_a_strategy_that_does_not_divide_batches_is_refused() -> None:
    trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False)
    with pytest.raises(HoldfastError, match="strategy='sync'"):
        check_trainer(trainer)


def apart(one: Any, two: Any) -> float:
    """The largest difference between nested numbers; infinite where something else differs."""
    if isinstance(one, Tensor):
        return float((one - two).abs().max())
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        one, two = list(one.values()), list(two.values())
    if isinstance(one, list):
        return max((apart(a, b) for a, b in zip(one, two, strict=True)), default=0.0)
    if one == two or (one != one and two != two):  # both NaN
        return 0.0
    numbers = isinstance(one, int | float) and isinstance(two, int | float)
    return abs(one - two) if numbers else float("inf")
