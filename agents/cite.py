"""`holdfast cite`: CiteME, finding the paper behind a citation; the table of its commands."""

from argparse import ArgumentParser
from collections.abc import Collection
from importlib import import_module

# A command's module in this package, which has its options and its action, and its help.
COMMANDS = {
    "demo": ("cite_demo", "Run every agent without a language model on mini-cite, offline"),
    "run": ("cite_run", "Run an agent over a data set; the same command resumes the run"),
    "optimise": (
        "cite_optimise",
        "Improve the agent's prompt on a train split, by DSPy's optimizers",
    ),
    "score": ("cite_score", "Score result files"),
    "show": (
        "cite_show",
        "Show the agent's replies, actions and their results on one sample, or list all samples",
    ),
    "compare": ("cite_compare", "Compare two runs, paired, or the accuracy and cost of several"),
    "dense": ("search.dense", "Evaluate retrieval by embeddings, such as SPECTER's"),
    "litsearch": ("litsearch", "Evaluate retrieval on LitSearch"),
    "import": ("authors_logs", "Convert results of CiteME's code to a run, judged anew"),
    "curate": ("curation", "Filter or analyse a dataset, as CiteME's paper does"),
}


def main(argv: list[str]) -> int:
    """Run a command and return its exit status."""
    args = parser(argv[:1]).parse_args(argv)
    return args.action(args) or 0


def parser(names: Collection[str] = COMMANDS.keys()) -> ArgumentParser:
    """The parser of all commands, of which those in `names` are imported and have their options."""
    cite = ArgumentParser(
        "holdfast cite",
        description="Evaluate agents on CiteME: which paper is cited?",
        epilog="example: holdfast cite run --agent bm25 --out runs/bm25.jsonl",
    )
    commands = cite.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (module, about) in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=f"{about}.")
        if name in names:
            import_module(f".{module}", __package__).add_options(command)
    return cite
