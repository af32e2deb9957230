"""The golden traces notice mistakes: each method is changed in one place, and its trace must fail."""

import inspect
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest
from golden_methods import MEASURED, TRACES
from golden_traces import check, check_measured, run

from holdfast import methods as m
from holdfast.callbacks import MRS, FisherRestore, PeriodicReset
from holdfast.callbacks.recovery import linear_quantile
from holdfast.methods import functional as f
from holdfast.methods.optimizers import sam_step
from holdfast.methods.parts.contrast import contrastive_loss
from holdfast.methods.parts.memory import Memory
from holdfast.methods.parts.norm import blend, use_batch_statistics
from holdfast.methods.parts.teacher import TeacherMethod
from holdfast.methods.rotta import CSTU


class Mutation(NamedTuple):
    """A place in a function where `old` becomes `new`, and the trace that notices."""

    function: Callable
    old: str
    new: str
    trace: str


def of(trace: str) -> Callable[[Callable, str, str], Mutation]:
    return lambda function, old, new: Mutation(function, old, new, trace)


tent = of("tta/ccc_tent_lr0.00025 float32")
eta = of("tta/ccc_eta_lr0.002 float32")
eata = of("tta/ccc_eata_lr0.002_k8 float32")
rdumb = of("tta/ccc_rdumb_lr0.002_reset10 float32")
rpl = of("tta/ccc_rpl_lr0.0005 float32")
cpl = of("tta/ccc_conjugate_lr0.01 float32")
cotta = of("tta/ccc_cotta_lr0.1_ema0.9 float32")
cotta_all = of("tta/official_cotta_all_lr0.01_ema0.9 float32")
sar = of("tta/sar_lr0.01 float32")
resetting = of("tta/sar_lr0.05_reset float64")
sotta = of("sotta/esm_adam_lr0.001_learnedstats0.2 float64")
rotta = of("rotta/full_default float32")
rmt = of("tta3/rmt_lr0.02_identity_m0.9_source float64")
memo = of("tta3/memo_lr0.005_n8_alpha0.1 float64")
rem = of("tta3/rem_adam0.001_m0.1_n3 float64")
santa = of("tta3/santa_lr0.05_identity_proj32 float64")
gtta = of("tta3/gtta_lr0.001_mixup float64")
adacontrast = of("tta3/adacontrast_lr0.002_queue96_euclid_k5 float64")
petta = of("tta2/petta_official_ce float32")
petal = of("petal/fim_perc0.3_spw1e-3 float32")

ONE_MORE = (
    "selected = entropy <= entropy.sort().values[min(31, (entropy < self.margin(logits)).sum())]"
)
MUTATIONS = [
    of("tta/ccc_pretrained float32")(
        m.TTAMethod.forward, "self.backbone, images", "self.backbone, images.flip(3)"
    ),
    of("tta/ccc_batchnorm float32")(
        use_batch_statistics, "in batch_norms(module)", "in [*batch_norms(module)][1:]"
    ),
    tent(m.Tent.loss, ".mean()", ".sum()"),
    tent(f.softmax_entropy, "logits.softmax", "logits.detach().softmax"),
    eta(m.ETA.select, "0.9 * mean_probs + 0.1 * mean", "0.1 * mean_probs + 0.9 * mean"),
    eta(m.ETA.select, "selected = entropy < self.margin(logits)", ONE_MORE),
    eta(m.ETA.select, "& ~redundant", "& redundant"),
    eta(
        m.ETA.loss,
        "entropy.detach() - self.margin(logits)",
        "self.margin(logits) - entropy.detach()",
    ),
    eata(m.EATA.penalty, "** 2).sum()", ").abs().sum()"),
    eata(m.EATA.learn_source, "[total / count for", "[total for"),
    rdumb(PeriodicReset.should_reset, "method.step_count %", "(method.step_count + 1) %"),
    rdumb(m.TTAMethod.forget_steps, "self.optimizer.state.clear()", "pass"),
    rdumb(m.TTAMethod.reset, "self.state = self.first_state()", "pass"),
    rpl(f.generalized_cross_entropy, "** q)", ")"),
    cpl(f.conjugate_loss, "epsilon * (1 - probs)", "epsilon * probs"),
    cotta(TeacherMethod.follow, ".add_(rate", ".add_((1 - rate)"),
    cotta(m.CoTTA.update, "return target", "return logits"),
    cotta_all(m.CoTTA.update, "0.5 * loss + 0.5", "1.0 * loss + 0.0"),
    cotta_all(m.TTAMethod.adaptable_parameters, 'self.adapts == "norms"', "True"),
    sar(m.SAR.update, "reliable & (there.detach() < margin)", "reliable"),
    sar(sam_step, "torch._foreach_copy_(params, here)", "pass"),
    resetting(MRS.should_reset, "self.average < self.floor", "self.average > self.floor"),
    resetting(m.SAR.forget_steps, "if not self.keep_momentum", "if self.keep_momentum"),
    sotta(m.SoTTA.learn, "len(images) > 1", "False"),
    sotta(f.damped_entropy, "(probs * ", "(probs.detach() * "),
    rotta(m.RoTTA.learn, "torch.exp(-ages) / ", "torch.exp(ages) / "),
    rotta(blend, "(1 - alpha) * mean + alpha *", "alpha * mean + (1 - alpha) *"),
    rotta(CSTU.make_room, "not self.early_quota", "self.early_quota"),
    rotta(Memory.read, '["age"] / self.capacity', '["age"] / self.capacity / 2'),
    rmt(m.RMT.update, "return logits + target", "return logits"),
    rmt(contrastive_loss, "similarity.masked_fill(itself, -torch.inf)", "similarity"),
    memo(f.marginal_entropy, "logsumexp(0)", "mean(0)"),
    memo(m.TTAMethod.to_source, "self.forget_steps()", "pass"),
    rem(m.REM.masked, "argsort(1)", "argsort(1, True)"),
    santa(m.SANTA.update, "(anchor, logits)", "(logits, anchor)"),
    gtta(m.GTTA.mixed, "(self(shown).softmax(1) @ probs.T).argmax(1)", "labels % len(images)"),
    adacontrast(m.AdaContrast.contrast, "keys, before, same", "keys, queue['keys'], same"),
    of("tta3/adacontrast_lr0.001_queue1024 float64")(
        m.AdaContrast.remember, '(bank["at"] + torch', '(bank["at"] + count + torch'
    ),
    petta(m.PeTTA.learn, "+ drift * self.pull * apart", ""),
    petta(m.PeTTA.divergence, "divergence(now,", "divergence(self.state['prototypes'],"),
    petal(FisherRestore.masks, "(f < threshold", "(f < 1.05 * threshold"),
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


CASES = [pytest.param(m, id=f"{m.trace}: {m.old} -> {m.new}") for m in MUTATIONS]


@pytest.mark.parametrize("mutation", CASES)
def test_mutation_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, mutation)
    measured = {trace.id: trace for trace in MEASURED}
    trace = (TRACES | measured)[mutation.trace]
    compare = check_measured if trace.id in measured else check

    def compared() -> None:
        for most in (4, None):  # most show at once
            compare(trace, run(trace, most=most))

    with pytest.raises(AssertionError, match=trace.id):
        compared()
