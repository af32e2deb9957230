"""`holdfast cite demo`: run every agent without a language model on mini-cite, offline."""

import time
from pathlib import Path

from ..baselines import BASELINES, baseline
from ..compare import compare
from ..data import MINI_CITE_CORPUS, load
from ..report.figures import histogram
from ..report.summary import table
from ..results import read
from ..run import run
from ..score import score
from .options import CiteParser


def parser() -> CiteParser:
    parser = CiteParser("demo", __doc__, "--out runs/cite-demo")
    parser.add("--out", type=Path, default=Path("runs/cite-demo"), metavar="FOLDER")
    return parser


def main(argv: list[str]) -> None:
    """Run, score and plot all baselines; result files and the figure are written to --out."""
    out = parser().parse_args(argv).out
    start = time.monotonic()
    dataset = load("mini-cite").select("test")
    print(dataset.describe())
    print(
        "mini-cite is a small dataset of Holdfast: its scores are not CiteME scores. Without a language"
    )
    print("model or network, agents search a file of papers by BM25, TF-IDF or at random.\n")
    scores, records = {}, {}
    for name in BASELINES:
        agent, search = baseline(name, str(MINI_CITE_CORPUS))
        path = out / f"{name}.jsonl"
        path.unlink(missing_ok=True)
        run(dataset, agent, search, path)
        records[name] = read(path)[1]
        scores[name] = score(records[name], dataset)
    print(table(scores))
    paired = compare(records["rules"], records["bm25"], dataset)
    print(
        f"\nrules against bm25, paired: {paired['only_a']} right only by the first, "
        f"{paired['only_b']} only by the second, exact McNemar p = {paired['p']:.3f}"
    )
    shown = ("bm25", "oracle-if-found", "rules")
    steps = {name: scores[name].actions_by_step_correct for name in shown}
    picture, n = out / "actions.png", scores["bm25"].n
    histogram(steps, picture, f"Actions by step of correct answers, mini-cite test split (n = {n})")
    print(f"\nWrote {picture} and the result files; {time.monotonic() - start:.1f} s in all.")
    print(f"Next: holdfast cite score {out / 'rules.jsonl'}")
