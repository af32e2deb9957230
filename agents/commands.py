"""The commands of `holdfast cite`: what each does with its options."""

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import HoldfastError, printable
from .baselines import BASELINES, baseline
from .data import MINI_CITE_CORPUS, Dataset, load, new_file, read_table, write_samples
from .episode import READ_CHARS, Agent, Budget
from .records import Header, Key, Record, ResultFile, read, settings_of
from .search import PROVIDERS
from .search.provider import SearchProvider

if TYPE_CHECKING:
    import dspy

PROMPTS = ("dspy", "json", "citeme")


# ---- runs ----


def run_agent(args: Namespace) -> int:
    """Run an agent over a data set; the same command resumes the run."""
    from .limits import Allowance
    from .run import run

    args.field = "Computer Science" if args.prompt == "citeme" else None
    if args.prompt != "citeme":
        args.read_chars = args.read_chars or READ_CHARS
    dataset = dataset_in(args)
    agent, provider = agent_and_provider(args)
    say(dataset.describe())
    try:
        counts = run(
            dataset,
            agent,
            provider,
            args.out,
            budget=Budget(args.results, args.max_actions, args.read_chars),
            workers=args.workers,
            repeats=args.repeats,
            run_limit=Allowance(args.max_usd, args.max_run_tokens, args.usd_per_million),
            progress=print_progress,
        )
    except KeyboardInterrupt:
        print("\nStopped. Rerun the same command to continue.", file=sys.stderr)
        return 130
    print(", ".join(f"{status} {count}" for status, count in sorted(counts.items())))
    if set(counts) == {"bad_format"}:
        print(
            f"The model does not follow --prompt {args.prompt}: no reply was usable. Try another --prompt, "
            "more --max-tokens if replies were cut off, or a larger model. `holdfast cite show "
            f"{args.out} SAMPLE` shows its replies."
        )
    if unanswered := counts.get("provider_error", 0) + counts.get("crash", 0):
        print(f"{unanswered} samples ended in errors; rerun the same command to repeat them.")
        return 1
    print(f"Next: holdfast cite score {args.out}")
    return 0


def agent_and_provider(args: Namespace) -> tuple[Agent, SearchProvider]:
    """The agent and its search; raises `HoldfastError` for options that do not go together."""
    if args.agent != "citeagent":
        if args.search != "local":
            raise HoldfastError(
                f"The agent {args.agent} ranks a whole corpus. Use it with --search local."
            )
        return baseline(args.agent, str(args.corpus))
    if args.prompts and args.prompt != "citeme":
        raise HoldfastError("--prompts applies only to CiteME's form. Use it with --prompt citeme.")
    lm, provider = model_of(args), PROVIDERS[args.search](**vars(args))
    if args.prompt == "citeme":
        from .citeme import CiteMEAgent

        return CiteMEAgent(lm, args.commands, args.demonstration, args.prompts), provider
    from .program import CiteAgent

    return CiteAgent(lm, args.commands, args.demonstration, args.prompt), provider


def model_of(args: Namespace) -> "dspy.LM":
    """The language model of the options; raises `HoldfastError` without --model."""
    if not args.model:
        raise HoldfastError(
            "--model is missing. Pass a language model (with --api-base for your own server), or an agent "
            "without one, such as --agent rules."
        )
    from .lm import language_model

    return language_model(
        args.model,
        api_base=args.api_base,
        temperature=args.temperature,
        max_tokens=args.max_tokens,
        timeout=args.lm_timeout,
        tries=args.tries,
        cache=args.cache,
    )


def print_progress(number: int, total: int, record: Record) -> None:
    """Print one line per finished sample; for a crash, the last line of its traceback."""
    lines = record.detail.strip().splitlines() or [""]
    why = lines[-1 if record.status == "crash" else 0][:200]
    line = f"[{number}/{total}] {record.sample}: {record.status} ({record.seconds:.1f} s)"
    say(f"{line} {why}".rstrip())


def demo(args: Namespace) -> None:
    """Run every agent without a language model on mini-cite, offline."""
    from .run import run
    from .score import score
    from .summary import table

    dataset = load("mini-cite").select("test")
    print(
        f"{dataset.describe()}\n"
        "mini-cite is a small dataset of Holdfast: its scores are not CiteME scores.\n"
    )
    scores = {}
    for name in BASELINES:
        path = args.out / f"{name}.jsonl"
        path.unlink(missing_ok=True)
        run(dataset, *baseline(name, str(MINI_CITE_CORPUS)), path)
        scores[name] = score(read(path)[1], dataset)
    print(table(scores))
    print(f"\nNext: holdfast cite score {args.out / 'rules.jsonl'}")


# ---- results ----


def score_runs(args: Namespace) -> None:
    """Score result files."""
    from .citeme_tables import beside_paper
    from .score import score
    from .summary import of_run, table

    named = {}
    for path in args.runs:
        header, records, dataset = opened(args, path)
        figures = score(records, dataset, repeats=header.repeats, prices=args.usd_per_million)
        named[str(path)] = {"agent": header.agent.plain(), "data": dataset.name, **figures}
        if not args.json:
            say(of_run(header, figures, dataset))
            say(f"  {beside_paper(header, dataset, figures, str(path))}\n")
    if args.json:
        print(json.dumps(named, indent=1, default=asdict))
    elif len(named) > 1:
        say(table({Path(name).stem: figures for name, figures in named.items()}))


def compare_runs(args: Namespace) -> None:
    """Compare two runs on the same samples, paired."""
    from .score import compare
    from .summary import of_comparison

    (_, a, dataset), (_, b, _) = opened(args, args.a), opened(args, args.b)
    figures = compare(a, b, dataset)
    text = f"A {args.a}\nB {args.b}\n{of_comparison(figures)}"
    say(json.dumps(figures, indent=1) if args.json else text)


def show_sample(args: Namespace) -> None:
    """Show the agent's replies, actions and their results on one sample, or list all samples."""
    from .score import judged
    from .summary import of_sample

    _, records, dataset = opened(args, args.run)
    rows = judged(records, dataset)
    if args.sample is None:
        say(rows[["sample", "repeat", "outcome"]].to_string(index=False))
        return
    samples = {s.id: s for s in dataset.samples}
    record = records.get((args.sample, args.repeat))
    if record is None or args.sample not in samples:
        raise HoldfastError(
            f"{args.run} has no sample {args.sample!r}, repeat {args.repeat}. List its {len(rows)} answers "
            f"with `holdfast cite show {args.run}`."
        )
    say(of_sample(record, samples[args.sample], args.full))


def import_results(args: Namespace) -> None:
    """Convert results of CiteME's code to a run, judged anew."""
    from .authors_logs import imported

    dataset = dataset_in(args)
    settings, records = imported(args.results, dataset)
    if not records:
        raise HoldfastError(
            f"{args.results} has no sample of {dataset.name}, {dataset.split}. Pass its --data."
        )
    write_run(args.out, settings, records)
    say(
        f"{len(records)} results are samples of {dataset.describe()}; the file is for the split "
        f"{settings['agent']['their_split']!r}; wrote {args.out}"
    )
    print(f"Next: holdfast cite score {args.out}")


def evaluate_dense(args: Namespace) -> None:
    """Evaluate retrieval by embeddings, such as SPECTER's."""
    from .search.dense import Specter, retrieve
    from .search.local import LocalSearch

    dataset, papers = dataset_in(args), list(LocalSearch(args.corpus).papers.values())
    figures = retrieve(dataset, papers, Specter(args.encoder))
    if args.json:
        print(json.dumps(figures, indent=1, default=asdict))
        return
    print(dataset.describe())
    included = f"{figures['targets_among_papers']} of {figures['n']} targets"
    print(f"{figures['papers']} papers, which include {included}")
    for k, rate in figures["recall"].items():
        print(f"recall@{k:<4} {rate}")
    print(f"MRR         {figures['mrr']:.3f}")
    if dataset.is_published:
        print("CiteME's tables 3 to 5: recall@1 of SPECTER and SPECTER2 is 0 % (n = 119).")


# ---- data ----


def find_ambiguous(args: Namespace) -> None:
    """Estimate how many excerpts cite several papers (a lower bound), beside CiteME's table 6."""
    from .citeme_tables import published
    from .curation import is_ambiguous
    from .score import proportion

    for path in args.files:
        excerpts = [row["excerpt"] for row in read_table(path, ["excerpt"], "excerpts")]
        verdicts = [is_ambiguous(text) for text in excerpts]
        unmarked = verdicts.count(None)
        rate = proportion(verdicts.count(True), len(excerpts) - unmarked)
        say(f"{path.name}: {rate}; {unmarked} without a mark of the target excluded")
    printed = ", ".join(f"{name} {value} %" for name, value in published()["table_6"].items())
    print(f"CiteME, table 6 (its regular expression is not published): {printed}.")


def filter_known(args: Namespace) -> None:
    """Write the samples that no run answers from memory, and list the excluded ones."""
    from .curation import known_by_heart

    known: dict[str, str] = {}
    for path in args.runs:
        header, records, dataset = opened(args, path)
        if header.agent.commands != "none":
            raise HoldfastError(
                f"{path} is not a run from memory. Make one with `holdfast cite run --commands none "
                "--repeats 5`."
            )
        for sample in known_by_heart(records, dataset, header.repeats):
            known.setdefault(sample, header.agent.model_or_name)
    left = [sample for sample in dataset.samples if sample.id not in known]
    write_samples(args.out, left)
    for name in sorted(known):
        say(f"excluded {name}: answered from memory by {known[name]}")
    asked = len(dataset.samples)
    print(f"{len(left)} of {asked} samples remain, {len(known)} excluded; wrote {args.out}")
    print("CiteME excluded 124 of 254 (section 2), by five tries of GPT-4o.")


def import_people(args: Namespace) -> None:
    """Convert answers of people to a run, and measure their agreement.

    In CiteME (section 2), 20 experts answered 5 of 100 samples each within two minutes: 69.7 % correct
    in 38.2 s on average; a second expert agreed in 71 % of cases, and one of the two was correct in 93 %.
    """
    from .citeme_tables import published
    from .curation import agreement, answers, as_records

    dataset = dataset_in(args)
    rows = answers(args.answers, dataset)
    records = as_records(rows)
    agent = {"name": "people", "annotators": len({row["annotator"] for row in rows})}
    repeats = max(record.repeat for record in records) + 1
    write_run(args.out, settings_of(dataset, agent, repeats=repeats), records)
    print(f"{len(rows)} answers of {agent['annotators']} people; wrote {args.out}")
    figures = agreement(rows, dataset.samples)
    if figures["pairs"]:
        print(f"pairs of answers to a sample: {figures['pairs']}")
        print(f"  the same title      {figures['same_title']}   (CiteME 71 %)")
        print(f"  both right or wrong {figures['same_verdict']}")
        print(f"  at least one right  {figures['at_least_one_right']}   (CiteME 93 %)")
    human = published()["human_percent"]
    print(f"CiteME: {human} % right, 38.2 s on average, at most two minutes.")
    print(f"Next: holdfast cite score {args.out}")


def tag_papers(args: Namespace) -> None:
    """Tag every cited paper with three topics from a language model (CiteME, figure 2); resumable."""
    from .curation import most_frequent, tags_of

    titles = list(dict.fromkeys(sample.titles[0] for sample in dataset_in(args).samples))
    # Replies are cached beside the file, so that an interrupted command goes on where it was.
    args.cache = args.cache or args.out.with_suffix(".cache")
    lm = model_of(args)
    tags = {title: tags_of(title, lm) for title in titles}
    with new_file(args.out) as partial:
        lines = (json.dumps({"title": t, "tags": tags[t]}, ensure_ascii=False) for t in titles)
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(titles)} papers; wrote {args.out}")
    for tag, count in most_frequent(tags.values()):
        say(f"{count:4d}  {tag}")


# ---- what several commands do ----


def say(text: str) -> None:
    """Print a text in which control characters, such as a model's, are not executed."""
    print(printable(text), flush=True)


def dataset_in(args: Namespace) -> Dataset:
    """The data that the options specify."""
    return load(args.data).select(args.split, args.limit)


def opened(args: Namespace, path: Path) -> tuple[Header, dict[Key, Record], Dataset]:
    """A run's header, records and data; raises `HoldfastError` if --data is not the run's."""
    header, records = read(path)
    named = header.dataset
    dataset = load(args.data)
    if dataset.sha256 != named.sha256:
        raise HoldfastError(
            f"{path} is a run on {named.name} (sha256 {named.sha256[:12]}), not on {args.data}. Pass that "
            "file with --data."
        )
    return header, records, dataset.select(named.split, header.n)


def write_run(path: Path, settings: dict[str, Any], records: list[Record]) -> None:
    """Write a result file; raises `HoldfastError` if it exists."""
    if path.exists():
        raise HoldfastError(f"{path} exists. Delete it, or pass --out another name.")
    with ResultFile(path, settings) as file:
        for record in records:
            file.append(record)
