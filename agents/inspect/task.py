"""`inspect eval holdfast/citeme`: CiteME, or mini-cite, as a task of Inspect."""

from inspect_ai import Task, task
from inspect_ai.model import GenerateConfig

from ..data import load
from ..episode import MAX_ACTIONS, READ_BUDGET, RESULTS
from . import model as model  # registers the model with Inspect
from .scorer import citeme_scorer, samples
from .solver import citeagent

TEMPERATURE = 0.95  # CiteME, section 4


@task
def citeme(
    data: str = "mini-cite",
    split: str = "test",
    commands: str = "search+read",
    search: str = "local",
    corpus: str | None = None,
    field: str | None = None,
    results: int = RESULTS,
    max_actions: int = MAX_ACTIONS,
    read_chars: int | str = READ_BUDGET,
) -> Task:
    """Find the paper behind a citation; `data` is CiteME's CSV or TSV, or mini-cite.

    The other arguments are options of `holdfast cite run`; repeats, workers, and limits of cost, tokens and
    time are Inspect's. Prompt and tool calls are Holdfast's, not those of CiteME's paper.
    """
    dataset = load(data).select(split)
    return Task(
        dataset=samples(dataset),
        solver=citeagent(
            commands=commands,
            search=search,
            corpus=corpus,
            field=field,
            results=results,
            max_actions=max_actions,
            read_chars=read_chars,
        ),
        scorer=citeme_scorer(searches=commands != "none"),
        config=GenerateConfig(temperature=TEMPERATURE),
        version=1,
        metadata={
            "dataset": dataset.name,
            "sha256": dataset.sha256,
            "split": dataset.split,
            "n": len(dataset.samples),
        },
    )
