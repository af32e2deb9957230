"""The commands of `holdfast cite` about data: dense, and curate with its analyses of CiteME's paper."""

import json
from argparse import Namespace
from dataclasses import asdict

from .. import HoldfastError
from .cite_results import dataset_in, opened, say, write_run
from .cite_run import language_model
from .data import Dataset, new_file, write
from .result_file import settings_of


def describe_data(args: Namespace) -> None:
    """Describe a dataset, compared with CiteME's table 1 and figure 2."""
    from . import curation

    dataset = dataset_in(args)
    labels = curation.labelled(args.labels) if args.labels else {}
    if args.json:
        years = [sample.year for sample in dataset.samples]
        shown = {"n": len(years), "years": years, "labels": labels}
        print(json.dumps({**shown, "published": curation.published()}, indent=1))
        return
    quality = curation.quality(labels).to_string(float_format="{:.1f}".format)
    say(
        f"{dataset.describe()}\n\n"
        f"year of the source (CiteME, figure 2)\n{curation.years(dataset)}\n\n"
        f"quality, percent of excerpts (CiteME, table 1)\n{quality}"
    )


def find_ambiguous(args: Namespace) -> None:
    """Estimate how many excerpts cite several papers (a lower bound), beside CiteME's table 6."""
    from .ambiguity import excerpts, is_ambiguous
    from .curation import published
    from .score import proportion

    figures = {}
    for path in args.files:
        judged = [(text, is_ambiguous(text, mark or args.target)) for text, mark in excerpts(path)]
        found = [text for text, ambiguous in judged if ambiguous]
        unmarked = sum(ambiguous is None for _, ambiguous in judged)
        if unmarked == len(judged):
            raise HoldfastError(
                f"{path} has no excerpt that marks its target. Name the mark with --target, or add a "
                "column target."
            )
        rate = proportion(len(found), len(judged) - unmarked)
        figures[str(path)] = {**asdict(rate), "unmarked": unmarked}
        if not args.json:
            say(f"{path.name}: {rate}; {unmarked} without a mark of the target excluded")
            for text in found if args.list else ():
                say(f"  {' '.join(text.split())}")
    printed = ", ".join(f"{name} {value} %" for name, value in published()["ambiguous"].items())
    note = f"CiteME, table 6 (its regular expression is not published): {printed}."
    print(json.dumps(figures, indent=1) if args.json else note)


def filter_known(args: Namespace) -> None:
    """Write the samples that no run answers from memory, and list the excluded ones."""
    from .curation import known_by_heart
    from .score import judged

    known: dict[str, str] = {}
    for path in args.runs:
        header, records, dataset = opened(args, path)
        if header.agent.commands != "none":
            raise HoldfastError(
                f"{path} is not a run from memory. Make one with `holdfast cite run --commands none "
                "--repeats 5`."
            )
        rows = judged(records, dataset, args.threshold)
        for sample in known_by_heart(rows, dataset, args.tries or header.repeats):
            known.setdefault(sample, header.agent.model_or_name)
    left = [sample for sample in dataset.samples if sample.id not in known]
    write(args.out, left)
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
    figures = agreement(rows, dataset.samples)
    if args.json:
        print(json.dumps(figures, indent=1, default=asdict))
        return
    print(f"{len(rows)} answers of {agent['annotators']} people; wrote {args.out}")
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
    lm = language_model(args)
    tags = {title: tags_of(title, lm) for title in titles}
    with new_file(args.out) as partial:
        lines = (json.dumps({"title": t, "tags": tags[t]}, ensure_ascii=False) for t in titles)
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(titles)} papers; wrote {args.out}")
    for tag, count in most_frequent(tags.values()):
        say(f"{count:4d}  {tag}")


def dense(args: Namespace) -> None:
    """Evaluate retrieval by embeddings, such as SPECTER's."""
    from .search.dense import fetch_embeddings, load_embeddings, retrieve

    dataset = dataset_in(args)
    if args.encoder:
        embed(args, dataset)
    if args.fetch:
        from .search.semantic_scholar import API, SemanticScholar

        if not args.fetch.is_file():
            raise HoldfastError(
                f"There is no file {args.fetch}. Pass one with a paper id per line."
            )
        ids = args.fetch.read_text(encoding="utf-8").split()
        service = SemanticScholar(args.s2_api or API)
        count = fetch_embeddings(service, ids, args.papers, args.embedding)
        print(f"{count} of {len(ids)} papers have a stored embedding; wrote {args.papers}")
        if not args.excerpts:
            return
    if not args.excerpts:
        raise HoldfastError("The excerpts have no embeddings. Pass them with --excerpts FILE.npz.")
    figures = retrieve(
        dataset,
        load_embeddings(args.excerpts, ("ids", "vectors")),
        load_embeddings(args.papers, ("ids", "titles", "vectors")),
    )
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


def embed(args: Namespace, dataset: Dataset) -> None:
    """Compute --papers and --excerpts by a local model, unless they exist."""
    from .search.dense import Specter, embed_excerpts, embed_papers, made_once
    from .search.local import LocalSearch

    if not args.excerpts:
        raise HoldfastError("Embedding writes two files. Name them with --papers and --excerpts.")
    corpus, query_adapter = LocalSearch(args.corpus), args.query_adapter or args.adapter

    def encoder(adapter: str | None) -> Specter:
        return Specter(args.encoder, adapter, device=args.device, batch=args.batch)

    made = {"model": args.encoder, "adapter": args.adapter, "corpus": corpus.sha256}
    papers = list(corpus.papers.values())
    made_once(args.papers, made, lambda: embed_papers(encoder(args.adapter), papers))
    made |= {"adapter": query_adapter, "place": args.place, "corpus": None}
    made |= {"data": dataset.sha256, "n": len(dataset.samples)}
    excerpts = lambda: embed_excerpts(encoder(query_adapter), dataset, args.place)  # noqa: E731
    made_once(args.excerpts, made, excerpts)
