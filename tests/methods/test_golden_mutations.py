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
from holdfast.callbacks import MRS, FisherRestore
from holdfast.methods import functional as f
from holdfast.methods.lcotta import principal_directions
from holdfast.methods.optimizers import sam_step
from holdfast.methods.parts.norm import blend, use_batch_statistics
from holdfast.methods.rotta import CSTU
from holdfast.methods.shot import information_maximisation
from holdfast.methods.t3a import _most_certain


class Mutation(NamedTuple):
    """A place in a function where `old` becomes `new`, and the trace that notices."""

    function: Callable
    old: str
    new: str
    trace: str


def of(trace: str) -> Callable[[Callable, str, str], Mutation]:
    return lambda function, old, new: Mutation(function, old, new, trace)


tent = of("tta/ccc_tent_lr0.00025 float64")
eta = of("tta/ccc_eta_lr0.002 float64")
eata = of("tta/ccc_eata_lr0.002_k8 float64")
rdumb = of("tta/ccc_rdumb_lr0.002_reset10 float64")
rpl = of("tta/ccc_rpl_lr0.0005 float64")
cotta = of("tta/ccc_cotta_lr0.1_ema0.9 float64")
sar = of("tta/sar_lr0.01 float64")
resetting = of("tta/sar_lr0.05_reset float64")
sotta = of("sotta/esm_adam_lr0.001_learnedstats0.2 float64")
rotta = of("rotta/full_default float32")
rmt = of("tta3/rmt_lr0.02_identity_m0.9_source float64")
memo = of("tta3/memo_lr0.005_n8_alpha0.1 float64")
rem = of("tta3/rem_adam0.001_m0.1_n3 float64")
santa = of("tta3/santa_lr0.05_identity_proj32 float64")
gtta = of("tta3/gtta_lr0.001_mixup float64")
petta = of("tta2/petta_official_ce float64")
neo = of("tta4/neo_bn float64")
t3a = of("tta4/t3a_bn40_M5 float64")
shot = of("tta4/shot_ttab_bn_lr0.001 float64")
zerosiam = of("tta4/zerosiam_vit_lr0.05_p0.1 float64")
lcotta = of("tta4/lcotta_bn_lr0.00015_n3_w6_step2 float64")
petal = of("petal/fim_perc0.3_spw1e-3 float64")

MUTATIONS = [
    of("tta/ccc_pretrained float64")(
        m.TTAMethod.predict_by, "logits(network, images)", "logits(network, images.flip(3))"
    ),
    of("tta/ccc_batchnorm float64")(
        use_batch_statistics, "in batch_norms(module)", "in [*batch_norms(module)][1:]"
    ),
    tent(m.Tent.loss, ".mean()", ".sum()"),
    eta(m.ETA.select, "& ~redundant", "& redundant"),
    eata(m.EATA.learn_source, "[total / count for", "[total for"),
    rdumb(m.TTAMethod.forget_steps, "self.optimizer.state.clear()", "pass"),
    rpl(f.generalized_cross_entropy, "** q)", ")"),
    cotta(m.CoTTA.update, "return target", "return logits"),
    sar(sam_step, "torch._foreach_copy_(params, here)", "pass"),
    resetting(MRS.should_reset, "self.average < self.floor", "self.average > self.floor"),
    sotta(f.damped_entropy, "(probs * ", "(probs.detach() * "),
    rotta(blend, "(1 - alpha) * mean + alpha *", "alpha * mean + (1 - alpha) *"),
    rotta(CSTU.make_room, "not self.early_quota", "self.early_quota"),
    rmt(m.RMT.update, "return logits + target", "return logits"),
    memo(f.marginal_entropy, "logsumexp(0)", "mean(0)"),
    rem(m.REM.masked, "argsort(1)", "argsort(1, True)"),
    santa(m.SANTA.update, "(anchor, logits)", "(logits, anchor)"),
    gtta(m.GTTA.mixed, "(self(shown).softmax(1) @ probs.T).argmax(1)", "labels % len(images)"),
    of("tta3/adacontrast_lr0.001_queue1024 float64")(
        m.AdaContrast.remember, '(bank["at"] + torch', '(bank["at"] + count + torch'
    ),
    petta(m.PeTTA.divergence, "(now - mean) ** 2", "(self.state['prototypes'] - mean) ** 2"),
    neo(m.NEO.update, "len(images) / count", "1 / count"),
    t3a(_most_certain, "rank < count", "rank <= count"),
    shot(information_maximisation, "mean + floor", "mean"),
    zerosiam(m.ZeroSiam.update, "logits.detach()", "logits"),
    of("tta4/pea_bn40_m0.02_orig_group32 float64")(m.PEA.followed, ".abs().mean()", ".mean()"),
    lcotta(principal_directions, "points - points.mean(0)", "points"),
    petal(FisherRestore.masks, "(f < threshold", "(f < 1.05 * threshold"),
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
