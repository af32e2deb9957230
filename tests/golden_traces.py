"""The golden traces of whole methods: how our own run of one is made, recorded and compared.

A quantity is compared as closely as rounding determines it: golden/sensitivity.json, written by
`python tests/sensitivity.py`, says how far our own run moves when the last four bits of all weights and
images change. The tolerance at a step is FACTOR times the most it has moved by then. Where that would be
above CAP, or where such a run has chosen otherwise (counts), nothing more of it is compared.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from common import GOLDEN, golden_network
from timm.models import VisionTransformer
from torch import Tensor, nn

from holdfast import methods as m
from holdfast.callbacks import ASR, MRS, FisherRestore
from holdfast.callbacks.recovery import linear_quantile
from holdfast.methods.rotta import CSTU

INPUTS = dict(np.load(GOLDEN / "tta" / "inputs.npz"))
SENSITIVITY = GOLDEN / "sensitivity.json"
FACTOR = 8  # the tolerance, in largest deviations of our own changed runs
FLOOR = 16 * 2.0**-23  # the least tolerance, as a share of the largest official value
CAP = 2e-3  # the most, as such a share
# Counts by the names that golden files give them, and in a method's trace.
TRACED_COUNTS = {
    "n_entropy_filter": "reliable",
    "n_selected": "selected",
    "n_restored": "restored",
    "n_reliable": "confident",
    "n_supports": "supports",
    "n_stored": "stored",
}
COUNTS = (*TRACED_COUNTS, "reset", "occupancy", "n_kept_tensors")
# Likewise parts of a loss.
TRACED_PARTS = {
    "divergence": "divergence",
    "loss_contrastive": "loss_contrastive",
    "loss_source": "loss_source",
    "entropy": "entropy",
    "diversity": "diversity",
    "loss_ent": "entropy",
    "loss_skl": "alignment",
    "entropy_smooth": "average_entropy",
}
QUANTITIES = (
    "logits_sub",
    "rowmean",
    "logsumexp",
    "loss",
    "ema",
    "threshold",
    "threshold_after",
    "flip",
    *TRACED_PARTS,
)


class Trace(NamedTuple):
    """A golden trace, and the method that should reproduce it, made from a network and the file."""

    name: str
    method: Callable[[nn.Module, dict[str, np.ndarray]], m.TTAMethod]
    dtype: torch.dtype = torch.float32
    fitted: int = 0  # batches that it learns from before the stream

    @property
    def id(self) -> str:
        return f"{self.name} {str(self.dtype).removeprefix('torch.')}"

    @property
    def file(self) -> dict[str, np.ndarray]:
        return opened(self.name)

    @property
    def official_dtype(self) -> torch.dtype:
        """That of the official run with which this one is compared."""
        exact = "logits_sub_f64" in self.file or "f64" in self.name or "tta4/" in self.name
        return self.dtype if exact else torch.float32


@cache
def opened(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / f"{name}.npz"))


class Run(NamedTuple):
    """What a run gave at each of N steps, [N,...] by name, and the tensors that it ended with.

    Of some official runs there are logits of the first steps only.
    """

    steps: dict[str, np.ndarray]
    final: dict[str, np.ndarray]

    def __len__(self) -> int:
        return max(map(len, self.steps.values()))


def official(trace: Trace) -> Run:
    """The official run; keys with f64 are those of its float64 run, where there is another."""
    double = trace.dtype == torch.float64 and "logits_sub_f64" in trace.file
    suffix = "_f64" if double else ""
    final = re.compile(r"final_f64\." if double else r"final[._](?!f64)")
    file = {k.replace("logits_eval_sub", "logits_sub"): v for k, v in trace.file.items()}
    names = [key for key in (*QUANTITIES, *COUNTS, "argmax") if key + suffix in file]
    steps = {key: file[key + suffix] for key in names}
    if "loss" in steps:
        steps["loss"] = steps["loss"].reshape(len(steps["loss"]), -1)
    return Run(steps, {final.sub("", k): v for k, v in file.items() if final.match(k)})


# ---- our own run ----------------------------------------------------------------------------------


def prepared(trace: Trace, moved: Callable[[Tensor], Tensor] = Tensor.clone) -> m.TTAMethod:
    """The trace's method, on a network whose weights are `moved`."""
    if "/rem_" in trace.name or "_vit" in trace.name:
        net = vision_transformer().to(trace.dtype)
        net.load_state_dict({name: moved(tensor) for name, tensor in net.state_dict().items()})
        return trace.method(net, trace.file)
    net, classes = golden_network(), np.arange(trace.file.get("num_class", 1000))
    classes = trace.file.get("rows", classes).astype(np.int64)
    net[-1].weight = nn.Parameter(net[-1].weight[classes].detach())
    net[-1].bias = nn.Parameter(net[-1].bias[classes].detach())
    net.to(trace.dtype)
    net.load_state_dict({name: moved(tensor) for name, tensor in net.state_dict().items()})
    return trace.method(net, trace.file)


def vision_transformer() -> nn.Module:
    """The network of REM's traces, and of those that are called vit."""
    net = VisionTransformer(16, 4, num_classes=40, embed_dim=32, depth=2, num_heads=4, mlp_ratio=2)
    weights = np.load(GOLDEN / "tta3" / "vit_weights.npz")
    net.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights})
    return net.eval()


def inputs(trace: Trace) -> Tensor:
    """The images [N,B,3,H,W] of the trace's steps."""
    steps = official(trace)
    size = steps.steps["argmax"].shape[1] if "argmax" in steps.steps else INPUTS["x"].shape[1]
    images = INPUTS["x"].reshape(-1, *INPUTS["x"].shape[2:])
    images = images[np.arange(len(steps) * size) % len(images)]
    images = torch.from_numpy(images)
    if "/pea_" in trace.name:
        images = (images.float() * 1.25 + 0.25).to(trace.dtype)
    return images.unflatten(0, (-1, size)).to(trace.dtype)


def source(trace: Trace, images: Tensor) -> Sequence[Any]:
    """The batches that the method learns from before the stream of these images."""
    if "src_labels" in trace.file:  # the official loader begins with the last batch
        labels = torch.from_numpy(trace.file["src_labels"].astype(np.int64))
        pairs = zip(torch.from_numpy(INPUTS["x"]).to(trace.dtype), labels, strict=True)
        return list(pairs)[::-1]
    if "/pea_" in trace.name:
        return list(torch.from_numpy(INPUTS["x"][20:30]).to(trace.dtype))
    if trace.fitted <= len(images):
        return list(images[: trace.fitted])
    return list(torch.from_numpy(INPUTS["x"][: trace.fitted]).to(trace.dtype))


def run(
    trace: Trace, moved: Callable[[Tensor], Tensor] = Tensor.clone, most: int | None = None
) -> Run:
    """Our own run, perhaps of its first steps only, with weights and images `moved`."""
    method, images = prepared(trace, moved), moved(inputs(trace))
    method.fit(source(trace, images))
    rows = []
    for step, batch in enumerate(images[:most]):
        if step == trace.file.get("reset_before"):
            method.reset()
        rows.append(observed(method, method.adapt(batch)))
    steps = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    width = official(trace).steps.get("loss", steps["loss"]).shape[1]
    steps["loss"] = steps["loss"][:, -width:]
    if "stored_batches" in trace.file:
        stored = trace.file["stored_batches"]
        steps["logits_sub"] = steps["logits_sub"][stored[stored < len(rows)]]
    if isinstance(method.recovery, ASR):
        method.recover()  # the official code resets after a step, not before the next
    return Run(steps, final(method) if most is None else {})


def observed(method: m.TTAMethod, logits: Tensor) -> dict[str, Any]:
    """What a golden file may hold of a step, and by how much the first class leads."""
    trace, top = method.trace, logits.topk(2).values
    columns: Any = INPUTS["cols"] if logits.shape[1] == 1000 else slice(None, None, 4)
    row = {
        "logits_sub": logits[:, columns].numpy(),
        "rowmean": logits.mean(1).numpy(),
        "logsumexp": logits.logsumexp(1).numpy(),
        "argmax": logits.argmax(1).numpy(),
        "lead": (top[:, 0] - top[:, 1]).numpy(),
        "loss": [float(trace.get(name, np.nan)) for name in ("first_loss", "loss")],
    }
    row |= {name: int(trace[ours]) for name, ours in TRACED_COUNTS.items() if ours in trace}
    row |= {name: float(trace[ours]) for name, ours in TRACED_PARTS.items() if ours in trace}
    recovery = method.recovery
    if isinstance(recovery, ASR):
        row |= of_asr(method, recovery, logits.shape[1])
        row["loss"][1] += float(trace.get("penalty", 0))
    if isinstance(recovery, MRS):
        row |= {"ema": recovery.average, "reset": int(recovery.should_reset(method))}
    if isinstance(recovery, FisherRestore):
        fisher = torch.cat([p.grad.flatten() ** 2 for p, _ in method.parameters_with_source()])
        row["threshold"] = linear_quantile(fisher, recovery.quantile).item()
    if isinstance(method, m.RoTTA):
        row["occupancy"] = len(method.state["memory"]["items"])
    return row


def of_asr(method: m.TTAMethod, recovery: ASR, classes: int) -> dict[str, Any]:
    """What ASR has decided after a step."""
    count, kept, threshold = len(list(method.parameters_with_source())), -1, recovery.threshold
    if recovery.due is not None:
        kept = sum(i < recovery.due * count for i in range(count))
        threshold = np.log(recovery.start * classes)
    return {
        **{"reset": int(recovery.due is not None), "n_kept_tensors": kept},
        **{"threshold_after": threshold, "flip": method.trace["flipped"]},
    }


def final(method: m.TTAMethod) -> dict[str, np.ndarray]:
    """The tensors at the end, under all the names that golden files give them."""
    student, teacher = tensors(method.backbone), tensors(method.predictor)
    names = [name for name, p in method.backbone.named_parameters() if p.requires_grad]
    found = {**student, **{f"ema.{name}": value for name, value in teacher.items()}}
    if isinstance(method, m.EATA):
        found |= {
            f"fisher.{n}": f.detach() for n, f in zip(names, method.learnt["fisher"], strict=True)
        }
    if isinstance(method.recovery, ASR):
        parts = {"estimated_fisher": method.recovery.fisher, "estimated_mean": method.recovery.mean}
        if "anchor" in method.state:
            parts["srcmodel"] = [value for _, value in method.anchored()]
        found |= {f"{p}.{n}": t for p, ts in parts.items() for n, t in zip(names, ts, strict=True)}
    if isinstance(method, m.CMF):
        found |= {f"hidden.{n}": h for n, h in zip(names, method.state["hidden"], strict=True)}
    if isinstance(method, m.ETA) and method.state["mean_probs"] is not None:
        found["mean_probs"] = method.state["mean_probs"]
    if isinstance(method, m.NEO):
        found["center"] = method.state["centre"]
    if isinstance(method, m.PEA):
        blocks = method.state["blocks"].items()
        found |= {f"mu.{name.replace('blocks.', 'block')}": b["mean"] for name, b in blocks}
    if isinstance(method, m.T3A):
        found |= {"labels": method.state["classes"], "ent": method.state["entropy"]}
    if isinstance(method, m.ZeroSiam):
        found["projector"] = method.projector.weight.detach()
    if isinstance(method, m.AdaContrast):
        found |= {f"momentum.{k}": v for k, v in tensors(method.teacher).items()}
    if isinstance(method, m.RoTTA):
        for who, values in (("student", student), ("teacher", teacher)):
            found |= {f"{who}.{k}": v for k, v in values.items()}
        if isinstance(method, m.PeTTA):
            found |= {f"init.{k}": v for k, v in tensors(method.anchor).items()}
            found["proto_mem"] = method.state["prototypes"]
        found["ages"] = CSTU(method.capacity, 1).read(method.state["memory"])[1]
    found |= {k.replace("running", "source"): v for k, v in found.items() if "running" in k}
    return {
        name: (
            value[INPUTS["cols"]] if len(value.shape) == 2 and len(value) == 1000 else value
        ).numpy()
        for name, value in found.items()
    }


def tensors(network: nn.Module) -> dict[str, Tensor]:
    named = (*network.named_parameters(), *network.named_buffers())
    return {name: tensor.detach() for name, tensor in named}


# ---- the comparison -------------------------------------------------------------------------------


def deviation(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """The largest difference at each step, [N,...] -> [N]; infinite where only one of them is NaN."""
    one = np.asarray(one, float)  # None, where a run has no average yet, is NaN
    apart = np.abs(one - two)
    apart[np.isnan(one) & np.isnan(two)] = 0
    return np.nan_to_num(apart, nan=np.inf).reshape(len(apart), -1).max(1)


@cache
def sensitivity() -> dict[str, Any]:
    return json.loads(SENSITIVITY.read_text())


def limits(trace: Trace, part: str = "steps") -> dict[str, np.ndarray]:
    """The tolerance of each quantity, at as many steps as it is determined."""
    theirs, own = getattr(official(trace), part), sensitivity()[trace.id][part]
    # Our float64 run meets an official float32 run: that one's rounding counts, and never beyond CAP.
    single = trace.dtype == torch.float64 and trace.official_dtype == torch.float32
    rough = sensitivity()[f"{trace.name} float32"][part] if single else {}
    found = {}
    for key in own.keys() & theirs.keys():
        largest = np.nanmax(np.abs(theirs[key])) if key not in COUNTS else 0
        moved = np.maximum.accumulate(np.array(own[key], ndmin=1))
        allowed = np.maximum(FACTOR * moved, FLOOR * largest)
        if single:
            more = np.full_like(allowed, np.inf)
            moved = np.maximum.accumulate(np.array(rough.get(key, []), ndmin=1))
            more[: len(moved)] = FACTOR * moved
            allowed = np.maximum(allowed, np.minimum(more, CAP * largest))
        allowed = allowed[: np.argmax([*(allowed > CAP * largest), True])]
        found[key] = allowed[: len(theirs[key])] if part == "steps" else allowed
    return found


def compared(trace: Trace) -> int:
    """How many steps of the logits are compared."""
    return len(limits(trace)["logits_sub"])


def check(trace: Trace, ours: Run) -> None:
    """Assert that a run agrees with the official one, as far as that is determined."""
    theirs = official(trace)
    for key, allowed in limits(trace).items():
        steps = min(len(allowed), len(ours.steps[key]))
        allowed = allowed[:steps]
        apart = deviation(ours.steps[key][:steps], theirs.steps[key][:steps])
        assert (apart <= allowed).all(), f"{trace.id}: {key} is off by {apart}, tolerance {allowed}"
    if "argmax" in theirs.steps:  # must agree where the first class leads by more than rounding
        steps = min(compared(trace), len(ours))
        allowed = limits(trace)["logits_sub"][:steps]
        off = ours.steps["argmax"][:steps] != theirs.steps["argmax"][:steps]
        assert not (off & (ours.steps["lead"][:steps] > 2 * allowed[:, None])).any(), trace.id
    for key, allowed in limits(trace, "final").items() if ours.final else ():
        apart = deviation(ours.final[key][None], theirs.final[key])
        assert (apart <= allowed).all(), f"{trace.id}: {key} at the end: off by {apart}"


def check_measured(trace: Trace, ours: Run) -> None:
    """Assert that a float64 run agrees with the official one, by tolerances that its makers measured.

    Against float64 logits 1e-5 of their standard deviation, else 2.5e-4 of it or ten times `dev_by_batch`,
    how far the official float32 run deviates from float64; parameters 1e-5 or ten times their deviation.
    """
    theirs, exact = official(trace), trace.official_dtype == torch.float64
    std = float(theirs.steps["logits_sub"].std())
    allowed = 1e-5 * std
    if not exact:
        allowed = max(2.5e-4 * std, 10 * float(trace.file["dev_by_batch"].max()))
    for key, values in theirs.steps.items():
        if key == "argmax":
            assert (ours.steps[key] == values[: len(ours)]).mean() >= (1 if exact else 0.995), (
                f"{trace.id}: {key}"
            )
            continue
        found, limit = ours.steps[key][: len(values)], 0.0 if key in COUNTS else allowed
        apart = deviation(found, values[: len(found)])
        assert (apart <= limit).all(), f"{trace.id}: {key} is off by {apart}, tolerance {limit}"
    dev = 0.0 if exact else float(trace.file["dev_params"])
    for key, value in theirs.final.items() if ours.final else ():
        apart = deviation(ours.final[key][None], value[None])
        assert (apart <= max(1e-5, 10 * dev)).all(), f"{trace.id}: {key} at the end: off by {apart}"
