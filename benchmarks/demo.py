"""`holdfast demo`: Tent gains, then collapses; RDumb holds; on this machine, without downloads."""

import argparse

from . import suite


def main(argv: list[str]) -> int:
    """Run the suite `demo` (benchmarks/configs/demo.yaml)."""
    parser = argparse.ArgumentParser(prog="holdfast demo", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a short, harder stream: under a minute"
    )
    parser.add_argument("--seeds", type=int, nargs="+", help="stream seeds (default: 43)")
    parser.add_argument("--out", help="folder for the runs (default: runs/demo)")
    args = parser.parse_args(argv)
    config = suite.load("demo-quick" if args.quick else "demo")
    config |= {k: v for k, v in {"out": args.out, "seeds": args.seeds}.items() if v is not None}
    status = suite.run_and_report(config)
    print(f"curves of every run: tensorboard --logdir {config['out']}")
    return status
