"""Several devices: a stream divided over two ranks gives what one device gives, and streams of their own.

Run as a script, this file is what the two ranks do: all cases, one after another.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import yaml
from conftest import TensorStream, last_bits, tiny_net, without_times
from lightning.pytorch import Callback, LightningDataModule, Trainer, seed_everything
from processes import Command, saved, started, until
from table import FIRST, TABLE
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn
from torch.utils.data import DataLoader

from holdfast import HoldfastError, methods
from holdfast.benchmarks.cli import main
from holdfast.callbacks import (
    AETTA,
    ASR,
    GDE,
    AccuracyReset,
    AdvPerturb,
    DatasetEstimates,
    FisherRestore,
    SoftmaxScore,
    SrcValid,
    WeightedFlips,
)
from holdfast.datamodules import CCC, Batch, Glyphs
from holdfast.datamodules.sources.image_source import UNREAD
from holdfast.methods import ROID, BNAdapt, CoTTA, Tent, TTAMethod
from holdfast.methods.contract import NETS
from holdfast.methods.contract.devices import compare, on_two_devices

ULPS, FACTOR = 64, 4
BATCH, STEPS = 13, 16  # does not divide evenly, and the last batch is shorter still
TIMEOUT = 400  # seconds


# Of the batches of 13: nothing that the first rank has of 0 and 2, nothing at all of 3, nothing that the
# second rank has of 5, and single images of 4 and 6.
UNREADABLE = {*range(7), *range(26, 33), *range(39, 52), *range(72, 78), 55, 78, 90}


class Torn(Glyphs):
    """Glyphs of which some cannot be read."""

    def load(self, index: Tensor, seed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        images, labels = super().load(index)
        torn = torch.isin(index, torch.tensor(sorted(UNREADABLE)))
        return images, torch.where(torn, UNREAD, labels)


class InOrder(CCC):
    """A stream that shows the source's images one after another."""

    def source_index(self, index: Tensor, number: int) -> Tensor:
        return index


class Cropped(Glyphs):
    """Glyphs of so many bytes that the labels behind a single one begin at an odd place."""

    def load(self, index: Tensor, seed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        images, labels = super().load(index)
        return images[..., 1:, 1:].contiguous(), labels


class Damaged(Glyphs):
    """Glyphs that stop with a sentence at images which only one of the ranks comes to."""

    def load(self, index: Tensor, seed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if os.environ.get("LOCAL_RANK") == "1":
            raise HoldfastError("damaged.")
        return super().load(index)


class Plain(LightningDataModule):
    """A map-style data set of batches' samples, as a user may have it."""

    def test_dataloader(self) -> DataLoader:
        random = torch.Generator().manual_seed(1)
        samples = [
            Batch(
                torch.rand(3, 8, 8, generator=random), torch.tensor(i % 5), *[torch.tensor(i)] * 2
            )
            for i in range(21)
        ]
        return DataLoader(samples, batch_size=8)


def ccc(
    images: int = STEPS * BATCH - 4,
    source: Glyphs | None = None,
    kind: type[CCC] = CCC,
    **kwargs: Any,
) -> CCC:
    noise = ("gaussian_noise", "contrast")
    facts = {"difficulty": 40, "speed": 30, "corruptions": noise, "quality": None}
    facts |= {"batch_size": BATCH, "num_workers": 0, **kwargs}
    return kind(source or Glyphs(), images=images, **facts)


def random_images() -> TensorStream:
    random = torch.Generator().manual_seed(1)
    return TensorStream(torch.rand(6, 7, 3, 8, 8, generator=random))


def tiny(norm: Callable[[int], nn.Module], kind: type[TTAMethod], **kwargs: Any) -> TTAMethod:
    net = tiny_net()
    net[1], net[4] = norm(8), norm(16)  # type: ignore[operator]
    return kind(net, partial(torch.optim.SGD, lr=0.05, momentum=0.9), **kwargs)


class Case(NamedTuple):
    method: Callable[[], TTAMethod]
    data: Callable[[], LightningDataModule]
    watchers: Callable[[], list[Callback]] = list
    precision: str = "32-true"


def glyphs(name: str) -> Callable[[], TTAMethod]:
    return partial(getattr(methods, name), "glyphs")


def roid_with_asr() -> TTAMethod:
    return ROID("glyphs", recovery=ASR(start=0.999))


def estimators() -> list[Callback]:
    held = {"f": "resnet50", "held": 20, "stop": 5, "any_backbone": True, "at_once": 7}
    own = [SoftmaxScore(), GDE(), SrcValid(Glyphs("calibration"), 31), AETTA(passes=3)]
    return [*own, AdvPerturb(), WeightedFlips(**held), AccuracyReset("SoftmaxScore", floor=0.05)]


STEADY = ("Source", "BNAdapt", "Tent", "SAR")
group, batch = partial(nn.GroupNorm, 4), nn.BatchNorm2d
unsure = {"threshold": 1.1, "views": 3}
CASES = {
    # Only no step, statistics, one pass and two: other losses run the same lines as Tent's, and other
    # methods multiply rounding errors; all of them in float64, on tiny networks, are in `work`.
    **{f"{name} in float32": Case(glyphs(name), ccc) for name in STEADY},
    "estimators": Case(glyphs("Tent"), partial(ccc, 8 * BATCH), estimators),
    "data sets": Case(
        glyphs("Source"),
        partial(ccc, 8 * BATCH),
        lambda: [DatasetEstimates(Glyphs("calibration"), 90, 70)],
    ),
    "GroupNorm": Case(partial(tiny, group, Tent), random_images),
    "views": Case(partial(tiny, batch, CoTTA, everything=True, **unsure), random_images),
    "views at once": Case(partial(tiny, group, CoTTA, **unsure), random_images),
    "prior": Case(partial(tiny, batch, BNAdapt, prior=16.0), random_images),
    "FisherRestore": Case(partial(tiny, batch, Tent), random_images, lambda: [FisherRestore(0.3)]),
    "ASR": Case(roid_with_asr, partial(ccc, 8 * BATCH), list, "64-true"),
    "map-style data": Case(partial(tiny, batch, Tent), Plain),
    "less than a batch": Case(glyphs("Tent"), partial(ccc, 7)),
    "one image": Case(glyphs("Tent"), partial(ccc, 1)),
    "one image over": Case(glyphs("Tent"), partial(ccc, 2 * BATCH + 1, num_workers=2)),
    "corrupted on the device": Case(glyphs("Tent"), partial(ccc, 30, on_device=True)),
    "one odd image": Case(glyphs("Tent"), partial(ccc, 1, Cropped())),
    "unreadable images": Case(glyphs("Tent"), partial(ccc, 99, Torn(), InOrder, num_workers=1)),
}


class Rows(Callback):
    """What each batch was, and what came of it."""

    def __init__(self, watchers: list[Callback]) -> None:
        self.watchers = watchers
        self.rows: list[Any] = []
        self.numbers: list[Any] = []

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, *_: Any
    ) -> None:
        lead = outputs["logits"].topk(2).values.diff().abs().flatten().tolist()
        columns = batch.index, batch.segment, outputs["correct"]
        self.rows.append([column.tolist() for column in columns])
        estimates = [getattr(watcher, "latest", None) for watcher in self.watchers]
        trace = {k: float(v) for k, v in pl_module.trace.items()}
        self.numbers.append([lead, estimates, pl_module.reset_count, trace])


class Changed(Callback):
    """Changes each batch's images before anyone sees them."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        self.change = change

    def on_test_batch_start(self, trainer: Trainer, pl_module: Any, batch: Any, *_: Any) -> None:
        batch.images.copy_(self.change(batch.images))


def outcome(case: Case, devices: int, change: Callable[[Tensor], Tensor] | None = None) -> dict:
    """Weights, rows and metrics of a run on one device or on several, perhaps of changed images."""
    seed_everything(0, verbose=False)
    method, watchers = case.method(), case.watchers()
    rows, sizes = Rows(watchers), []
    method.backbone.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    changed = [] if change is None else [Changed(change)]
    trainer = Trainer(
        accelerator="cpu",
        devices=devices,
        strategy="sync" if devices > 1 else "auto",
        precision=case.precision,  # type: ignore[arg-type]
        callbacks=[*changed, *watchers, rows],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.test(method, datamodule=case.data(), verbose=False)
    assert not method.divides
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    weights = [tensor.detach() for tensor in method.restorable_tensors()]
    numbers = {"weights": weights, "numbers": rows.numbers, "metrics": metrics}
    return {**numbers, "rows": rows.rows, "most": max(sizes)}


def work(folder: Path) -> None:
    """What each rank does."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {name: outcome(case, devices=2) for name, case in CASES.items()}
    results["methods"] = {name: on_two_devices(TABLE[name].make, NETS[net]) for name, net in FIRST}
    with pytest.raises(HoldfastError, match="damaged"):
        outcome(Case(glyphs("Source"), partial(ccc, 30, Damaged())), devices=2)
    torch.save(results, folder / f"rank{os.environ['LOCAL_RANK']}.pt")
    torch.distributed.barrier()


@pytest.fixture(scope="module", autouse=True)
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], list[dict]]]:
    """The results of both ranks, which begin to work at once."""
    folder = tmp_path_factory.mktemp("ranks")
    loaded: list[dict] = []
    with started(folder, program=[__file__], session=True) as process:

        def results() -> list[dict]:
            if not loaded:
                log = process.told(TIMEOUT)
                assert process.returncode == 0, log
                loaded.extend(torch.load(folder / f"rank{rank}.pt") for rank in (0, 1))
            return loaded

        yield results


SMALL = {
    "data": {
        "class_path": "CCC",
        "init_args": {
            **{"source": "Digits", "calibration": "digits", "difficulty": 30, "quality": None},
            **{"speed": 20, "images": 30 * 6 + 5, "batch_size": 6, "num_workers": 0},
        },
    },
    "trainer": {"accelerator": "cpu", "callbacks": ["SoftmaxScore"]},
}


def command(folder: Path, *words: str) -> list[str]:
    """`holdfast test` on the small stream, as words; the run goes to FOLDER/run."""
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(SMALL))
    model = ["--model", "Tent", "--model.backbone", "digits"]
    return ["test", "--config", str(file), "--out", str(folder / "run"), *model, *words]


def alone(folder: Path, *words: str) -> list[dict[str, Any]]:
    """The rows of a run on one device."""
    folder.mkdir()
    assert main(command(folder, *words)) == 0
    return without_times(folder / "run")


def on_several(devices: int, strategy: str, folder: Path, *more: str) -> list[str]:
    """The command on several devices, as words."""
    words = ["--trainer.devices", str(devices), "--trainer.strategy", strategy, *more]
    return command(folder, *words, "--progress", "false")


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
TORCHRUN += ("-m", "holdfast.benchmarks.cli")


@pytest.mark.slow
def test_sync_from_the_command_line(tmp_path: Path) -> None:
    """A killed rank ends the run in a sentence; begun again, by torchrun, it ends as on one device."""
    run, more = tmp_path / "run", ("--data.images", "905", "--save_every", "20")
    words = on_several(2, "sync", tmp_path, *more)
    with started(*words, session=True) as first:
        kill_second_rank(first, run)
        log = first.told(TIMEOUT)
    assert first.returncode == 2, log
    assert log.startswith("holdfast test: the process of another device has ended")
    assert len(log.splitlines()) == 1
    assert not (run / "summary.json").exists()

    with started(*words, "--resume", program=TORCHRUN, session=True) as process:
        log = process.told(TIMEOUT)
    assert process.returncode == 0, log
    assert len(log.splitlines()) == 1
    expected, found = alone(tmp_path / "alone", *more), without_times(run)
    assert [row["images"] for row in found] == [row["images"] for row in expected]
    for one, two in zip(expected, found, strict=True):
        assert two == {
            k: pytest.approx(v, rel=1e-4) if isinstance(v, (int, float)) else v
            for k, v in one.items()
        }
    assert json.loads((run / "summary.json").read_text())["images"] == 905
    facts = json.loads((run / "provenance.json").read_text())
    assert facts["devices"] == 2
    assert len(facts["resumed"]) == 1
    assert len(curve(run)) == len(curve(tmp_path / "alone" / "run"))


def kill_second_rank(process: Command, run: Path) -> None:
    """As soon as there is a checkpoint."""
    until(lambda: saved(run))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)


@pytest.mark.slow
def test_streams_from_the_command_line(tmp_path: Path) -> None:
    """Each is a run of its own; the third fails, and the others stay."""
    taken = tmp_path / "run" / "seed-45" / "record.jsonl"
    taken.parent.mkdir(parents=True)
    taken.touch()
    with started(*on_several(3, "streams", tmp_path), session=True) as process:
        log = process.told(TIMEOUT)
    assert process.returncode == 2, log
    assert len(log.splitlines()) == 4
    assert f"holdfast test: {taken.parent} already contains a run" in log
    assert log.splitlines()[-1].startswith("holdfast test: 1 of the other streams failed")
    for seed in (43, 44):
        run = tmp_path / "run" / f"seed-{seed}"
        (line,) = (line for line in log.splitlines() if line.endswith(run.name))
        summary = json.loads((run / "summary.json").read_text())
        assert f"{summary['accuracy']:.2%}" in line
        seeds = ["--data.seed", str(seed), "--seed_everything", str(seed - 1)]
        assert without_times(run) == alone(tmp_path / str(seed), *seeds)
        assert curve(run)[-1].step == without_times(run)[-1]["images"]
        again = yaml.safe_load((run / "config.yaml").read_text())
        assert again["data"]["init_args"]["seed"] == seed
        assert again["trainer"]["devices"] == 1


def curve(run: Path) -> list:
    events = EventAccumulator(str(run))
    events.Reload()
    return events.Scalars("stream/accuracy")


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_do_what_one_device_does(name: str, ranks: Callable[[], list[dict]]) -> None:
    case = CASES[name]
    first, second = (results[name] for results in ranks())
    assert first["rows"] == second["rows"]
    assert apart(first["numbers"], second["numbers"]) == 0
    assert all(map(torch.equal, first["weights"], second["weights"]))
    single = outcome(case, devices=1)
    allowed = tolerances(case, single)
    found = {part: apart(single[part], first[part]) for part in allowed}
    print(f"{name}: off by {found}, tolerance {allowed}")
    assert all(found[part] <= allowed[part] for part in allowed)
    flipped = 0  # labels at float32's edge between two classes
    for one, two, (lead, *_) in zip(single["rows"], first["rows"], single["numbers"], strict=True):
        assert one[:2] == two[:2]
        changed = [gap for a, b, gap in zip(one[2], two[2], lead, strict=True) if a != b]
        assert max(changed, default=0.0) <= allowed["numbers"]
        flipped += len(changed)
    assert flipped or apart(single["metrics"], first["metrics"]) <= allowed["numbers"]
    seen = [index for row in first["rows"] for index in row[0]]
    expected = set(range(getattr(case.data(), "images", len(seen))))
    assert seen == sorted(expected - UNREADABLE if "unreadable" in name else expected)
    if name.endswith("in float32"):
        assert (first["most"], second["most"]) == (-(-single["most"] // 2), single["most"] // 2)


@pytest.mark.filterwarnings("ignore:.*to this batch alone")
@pytest.mark.parametrize(("name", "net"), FIRST)
def test_every_method_on_two_ranks(name: str, net: str, ranks: Callable[[], list[dict]]) -> None:
    """As `holdfast check-method` asks."""
    for results in ranks():
        compare(results["methods"][name], TABLE[name].make, NETS[net])


def tolerances(case: Case, single: dict[str, Any]) -> dict[str, float]:
    """In float32, FACTOR times what one device's run moves by if the last bits of its images change."""
    if case.precision == "64-true":
        return {"weights": 1e-11, "numbers": 1e-9}
    changed = [outcome(case, 1, last_bits(seed, ULPS)) for seed in (1, 2)]
    return {
        part: max(1e-6, *(FACTOR * apart(single[part], other[part]) for other in changed))
        for part in ("weights", "numbers")
    }


def apart(one: Any, two: Any) -> float:
    """The largest difference between nested numbers; relative, where they are above 1."""
    if isinstance(one, Tensor):
        return float((one - two).abs().max())
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        one, two = list(one.values()), list(two.values())
    if isinstance(one, list):
        return max((apart(a, b) for a, b in zip(one, two, strict=True)), default=0.0)
    if one == two or (one != one and two != two):  # both NaN
        return 0.0
    return float("inf") if one is None or two is None else abs(one - two) / max(1.0, abs(one))


if __name__ == "__main__":
    work(Path(sys.argv[1]))
