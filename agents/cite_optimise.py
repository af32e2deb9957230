"""`holdfast cite optimise`: improve CiteAgent's instructions and examples by one of DSPy's optimizers."""

import json
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, get_args

from .. import HoldfastError
from . import cite_options as options
from .actions import Commands
from .cite_options import say
from .data import Dataset, new_file
from .episode import Budget
from .matching import official_match
from .search import PROVIDERS

if TYPE_CHECKING:
    import dspy

    from .program import CiteAgent

OPTIMIZERS = ("bootstrap", "random-search", "mipro", "simba", "gepa")
_FORMS = ("dspy", "json")


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and its action."""
    parser.set_defaults(action=_optimise)
    options.add_data(parser, split="train")
    options.add_out(parser, "file of the program (.json), for `cite run --program`")
    about = "optimizer of DSPy"
    options.add(parser, "--optimizer", about, default="bootstrap", choices=OPTIMIZERS)
    options.add(parser, "--examples", "maximum worked examples in a prompt", options.positive, 2)
    options.add(parser, "--candidates", "number of programs to try", options.positive, 4)
    options.add_model(parser)
    options.add(parser, "--prompt", "form of replies", default="dspy", choices=_FORMS)
    commands = get_args(Commands)
    options.add(parser, "--commands", "actions", default="search+read", choices=commands)
    options.add_search(parser, PROVIDERS)
    options.add_limits(parser, "Those of all samples that are run.")


def _optimise(args: Namespace) -> None:
    dataset = options.read_dataset(args)
    from .program import CiteAgent  # deferred: imports dspy, which takes seconds

    agent = CiteAgent(
        options.open_model(args),
        args.commands,
        form=args.prompt,
        search=PROVIDERS[args.search](**vars(args)),
        budget=Budget(args.results, args.max_actions),
        allowance=options.read_limits(args),
    )
    say(dataset.describe())
    program = optimise(agent, dataset, args.optimizer, args.examples, args.candidates)
    with new_file(args.out) as partial:
        partial.write_text(json.dumps(program, indent=1), encoding="utf-8")
    before, after = program["before"], program["after"]
    print(
        f"{program['requests']} requests; correct on {dataset.split}: {before} before, {after} after"
    )
    print(f"Next: holdfast cite run --program {args.out} --split test")


def optimise(
    agent: "CiteAgent", dataset: Dataset, optimizer: str, examples: int = 2, candidates: int = 4
) -> dict[str, Any]:
    """An optimised program as JSON, which `CiteAgent.load_program` reads.

    `examples` is the maximum of worked examples in a prompt, and `candidates` the number of programs to
    try. Raises `HoldfastError` if the optimizer fails, for example because no sample is answered.
    """
    import dspy

    from .lm import RequestCount

    count, lm = RequestCount(), agent.predictors()[0].lm
    shown = [_example(sample) for sample in dataset.samples]
    with dspy.context(lm=lm, callbacks=[count]):
        before = _correct(agent, shown)
        try:
            better = _compiled(optimizer, agent, shown, lm, examples, candidates)
        except HoldfastError:
            raise
        except Exception as error:  # optimizers raise many
            raise HoldfastError(
                f"{optimizer} fails on {dataset.name}, {dataset.split}: {type(error).__name__}: {error}. "
                "Use another --optimizer, or more samples."
            ) from error
        after = _correct(better, shown)
    data = {"name": dataset.name, "sha256": dataset.sha256, "split": dataset.split}
    return {
        "type": "citeagent",
        "optimizer": optimizer,
        "examples": examples,
        "candidates": candidates,
        "model": lm.model,
        "commands": agent.commands,
        "format": agent.form,
        "dataset": {**data, "n": len(shown)},
        "before": before,
        "after": after,
        "requests": count.requests,
        "dspy": dspy.__version__,
        "state": better.dump_state(),
    }


def _example(sample: Any) -> "dspy.Example":
    """A sample as an example of DSPy."""
    import dspy

    inputs = {"excerpt": sample.excerpt, "source": sample.source_title, "until": sample.date}
    return dspy.Example(**inputs, titles=sample.titles).with_inputs(*inputs)


def metric(example: Any, prediction: Any, trace: Any = None, *unused: Any) -> float:
    """1 if a prediction's title is one of the example's by CiteME's matcher, otherwise 0."""
    return float(official_match(getattr(prediction, "title", "") or "", example.titles))


def _feedback(example: Any, prediction: Any, *unused: Any) -> Any:
    """The metric with words on a wrong answer, for GEPA."""
    import dspy

    score = metric(example, prediction)
    ended = f"{prediction.status} {prediction.detail}".strip()
    wrong = f"It should be {example.titles[0]!r}, not {prediction.title!r} ({ended})."
    return dspy.Prediction(score=score, feedback="This is the cited paper." if score else wrong)


def _correct(agent: "CiteAgent", shown: list[Any]) -> int:
    return round(sum(metric(example, agent(**example.inputs())) for example in shown))


def _compiled(
    optimizer: str, agent: "CiteAgent", shown: list[Any], lm: Any, examples: int, candidates: int
) -> Any:
    """The agent after one of DSPy's optimizers."""
    import dspy

    demos = {"max_bootstrapped_demos": examples, "max_labeled_demos": 0}
    search: Any
    tries: dict[str, Any] = {"num_threads": 1}
    more: dict[str, Any] = {}
    if optimizer == "bootstrap":
        search = dspy.BootstrapFewShot(metric, **demos)
    elif optimizer == "random-search":
        tries |= {"num_candidate_programs": candidates}
        search = dspy.BootstrapFewShotWithRandomSearch(metric, **tries, **demos)
    elif optimizer == "mipro":
        tries |= {"auto": None, "num_candidates": candidates}
        search = dspy.MIPROv2(metric, prompt_model=lm, task_model=lm, **tries, **demos)
        more = {"valset": shown, "num_trials": 2 * candidates, "minibatch": False}
    elif optimizer == "simba":
        tries |= {"num_candidates": candidates, "max_steps": candidates}
        steps = {"bsize": min(len(shown), 8), "max_demos": examples}
        search = dspy.SIMBA(metric=metric, prompt_model=lm, **tries, **steps)
        more = {"seed": 0}
    else:
        calls = 2 * (candidates + 1) * len(shown)
        search = dspy.GEPA(_feedback, max_metric_calls=calls, reflection_lm=lm, **tries)
        more = {"valset": shown}
    return search.compile(agent, trainset=shown, **more)
