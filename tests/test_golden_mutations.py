"""The golden traces notice mistakes: each method is changed in one place, and its trace must fail."""

import inspect
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest
from golden_methods import TRACES
from golden_traces import check, run

from holdfast.callbacks import MRS, FisherRestore, PeriodicReset
from holdfast.callbacks.restore import linear_quantile
from holdfast.methods import EATA, ETA, SAR, CoTTA, RoTTA, SoTTA, Tent, TTAMethod
from holdfast.methods import functional as f
from holdfast.methods.memory import CSTU, Memory
from holdfast.methods.norm import MovingBatchNorm, blend, use_batch_statistics
from holdfast.methods.sam import sam_step
from holdfast.methods.teacher import TeacherMethod


class Mutation(NamedTuple):
    """A place in a function where `old` becomes `new`, and the traces that notice."""

    function: Callable
    old: str
    new: str
    traces: tuple[str, ...]


def of(*traces: str) -> Callable[[Callable, str, str], Mutation]:
    return lambda function, old, new: Mutation(function, old, new, traces)


tent = of("tta/ccc_tent_lr0.00025", "tta/ccc_tent_lr0.01", "tta/official_tent_adam_lr0.001")
eta = of("tta/ccc_eta_lr0.00025", "tta/ccc_eta_lr0.002", "tta/ccc_eta_lr0.01")
eata = of("tta/ccc_eata_lr0.00025_k8", "tta/ccc_eata_lr0.002_k8", "tta/ccc_eata_lr0.002_k5_alpha50")
rdumb = of("tta/ccc_rdumb_lr0.00025_reset10", "tta/ccc_rdumb_lr0.002_reset10")
rpl = of("tta/ccc_rpl_lr0.0005", "tta/ccc_rpl_lr0.01")
cpl = of("tta/ccc_conjugate_lr0.001", "tta/ccc_conjugate_lr0.01")
cotta = of("tta/ccc_cotta_lr0.01_ema0.999", "tta/ccc_cotta_lr0.1_ema0.9")
cotta_all = of("tta/official_cotta_all_lr0.01_ema0.9", "tta/official_cotta_all_lr0.01_ema0.999")
sar = of("tta/sar_lr0.00025", "tta/sar_lr0.01", "tta/sar_lr0.05_reset", "tta/sar_lr0.3")
resetting = of("tta/sar_lr0.05_reset")
sotta = of("sotta/esm_adam_lr0.001_learnedstats0.2", "sotta/esm_adam_lr0.01_learnedstats0.2")
rotta = of("rotta/full_default", "rotta/full_f64_nu0.02_K50")
petal = of("petal/fim_perc0.03", "petal/fim_perc0.3_spw1e-3")

ONE_MORE = "selected = entropy <= entropy.sort().values[(entropy < self.margin(logits)).sum()]"
MUTATIONS = [
    of("tta/ccc_pretrained")(TTAMethod.predict, "self(images)", "self(images.flip(3))"),
    of("tta/ccc_batchnorm")(
        use_batch_statistics, "in batch_norms(module)", "in [*batch_norms(module)][1:]"
    ),
    tent(Tent.loss, ".mean()", ".sum()"),
    tent(f.softmax_entropy, "(logits, logits)", "(logits, logits.detach())"),
    eta(ETA.select, "0.9 * mean_probs + 0.1 * mean", "0.1 * mean_probs + 0.9 * mean"),
    eta(ETA.select, "entropy < self.margin(logits)", "entropy > self.margin(logits)"),
    eta(ETA.select, "selected = entropy < self.margin(logits)", ONE_MORE),
    eta(ETA.select, "& ~redundant", "& redundant"),
    eta(ETA.loss, "exp(entropy.detach() - self", "exp(entropy - self"),
    eta(
        ETA.loss, "entropy.detach() - self.margin(logits)", "self.margin(logits) - entropy.detach()"
    ),
    eata(EATA.loss, "loss + self.beta", "loss - self.beta"),
    eata(EATA.penalty, "** 2).sum()", ").abs().sum()"),
    eata(EATA.fit_fisher, "total / count", "total"),
    rdumb(PeriodicReset.should_reset, "step_count %", "(step_count + 1) %"),
    rdumb(TTAMethod.forget_steps, "self.optimizer.state.clear()", "pass"),
    rdumb(TTAMethod.reset, "self.state = self.fresh_state()", "pass"),
    rpl(f.generalized_cross_entropy, "** q) / q", "** q)"),
    rpl(f.generalized_cross_entropy, "** q)", ")"),
    cpl(f.conjugate_label, "(1 + epsilon", "(1 - epsilon"),
    cpl(f.conjugate_loss, "conjugate_label(probs", "conjugate_label(probs.detach()"),
    cpl(f.conjugate_loss, "epsilon * (1 - probs)", "epsilon * probs"),
    cotta(TeacherMethod.follow, ".add_(self.teacher_rate", ".add_((1 - self.teacher_rate)"),
    cotta(CoTTA.update, "return target", "return logits"),
    cotta(CoTTA.update, "self.follow()", "pass"),
    cotta(CoTTA.update, "0.5 * loss + 0.5", "1.0 * loss + 0.0"),
    cotta_all(CoTTA.update, "0.5 * loss + 0.5", "1.0 * loss + 0.0"),
    cotta_all(CoTTA.adaptable, "if self.everything", "if not self.everything"),
    sar(SAR.update, "reliable = entropy.detach() < margin", "reliable = entropy.detach() > margin"),
    sar(SAR.update, "entropy[entropy.detach() < margin].mean()", "entropy.mean()"),
    sar(sam_step, "torch._foreach_copy_(params, here)", "pass"),
    sar(sam_step, "rho / (norm + 1e-12)", "rho"),
    resetting(MRS.should_reset, "self.average < self.floor", "self.average > self.floor"),
    resetting(MRS.observe, "0.9 * self.average + (1 - 0.9) *", "0.1 * self.average + (1 - 0.1) *"),
    resetting(SAR.forget_steps, "if not self.keep_momentum", "if self.keep_momentum"),
    sotta(SoTTA.learn, "len(images) > 1", "False"),
    sotta(f.damped_entropy, "(probs * ", "(probs.detach() * "),
    sotta(sam_step, "torch._foreach_copy_(params, here)", "pass"),
    rotta(RoTTA.learn, "torch.exp(-ages) / ", "torch.exp(ages) / "),
    rotta(RoTTA.learn, ", training(self.teacher)", ""),
    rotta(RoTTA.learn, "self.follow()", "pass"),
    rotta(blend, "(1 - alpha) * mean + alpha *", "alpha * mean + (1 - alpha) *"),
    rotta(
        MovingBatchNorm.forward, "normalise(input, mean, var", "normalise(input, mean.detach(), var"
    ),
    rotta(CSTU.make_room, "worst <= self.score", "worst > self.score"),
    rotta(CSTU.make_room, "not self.early_quota", "self.early_quota"),
    rotta(Memory.read, '["age"] / self.capacity', '["age"] / self.capacity / 2'),
    petal(FisherRestore.masks, "(f < threshold", "(f > threshold"),
    petal(FisherRestore.masks, "(f < threshold", "(f < 1.05 * threshold"),
    petal(FisherRestore.masks, "g**2", "g.abs()"),
    petal(linear_quantile, "q * (len(values) - 1)", "q * len(values) + 1"),
]


def mutate(patch: pytest.MonkeyPatch, mutation: Mutation) -> None:
    """Give the function the code of its changed source, for everyone who has imported it."""
    function = inspect.unwrap(mutation.function)
    lines, first = inspect.getsourcelines(function)
    assert "".join(lines).count(mutation.old) == 1, "the source has changed: change the mutation"
    path = Path(inspect.getfile(function))
    text = path.read_text().splitlines(keepends=True)
    text[first - 1 : first - 1 + len(lines)] = ["".join(lines).replace(mutation.old, mutation.new)]
    places = [compile("".join(text), str(path), "exec")]
    for code in places:
        places += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    name, line = function.__name__, function.__code__.co_firstlineno
    (code,) = (c for c in places if (c.co_name, c.co_firstlineno) == (name, line))
    patch.setattr(function, "__code__", code)


CASES = [
    pytest.param(mutation, trace, id=f"{trace}: {mutation.old} -> {mutation.new}")
    for mutation in MUTATIONS
    for name in mutation.traces
    for trace in TRACES
    if trace.startswith(f"{name} ")
]


@pytest.mark.parametrize(("mutation", "name"), CASES)
def test_mutation_is_noticed(
    mutation: Mutation, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch, mutation)
    with pytest.raises(AssertionError, match=name):
        check(TRACES[name], run(TRACES[name]))
