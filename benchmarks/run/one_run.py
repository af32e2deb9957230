"""`holdfast test`: run one method on one stream, from the command line or from YAML."""

import argparse
import contextlib
import ctypes
import errno
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback
from threadpoolctl import threadpool_limits

from ... import HoldfastError
from ...callbacks.checkpoint import GO_ON
from ...callbacks.lease_guard import LeaseGuard
from ...datamodules.loader import death_in_a_sentence
from ...files import read_json, read_yaml, unwritable, whole_file
from ...lease import Lease, replace_by_copy
from ...run_folder import CHECKSUMS, CONFIG, ROWS, SUMMARY, remove_run
from ..presets import with_presets
from .cli_errors import parser_errors_explained, short_help
from .multi_stream import on_one_device, one_rank_reports
from .run_cli import RunCLI

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # constants of malloc.h
NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)


def run(
    args: list[str] | dict[str, Any],
    *first: Callback,
    hold: Callable[[Path], Callback] | None = None,
) -> RunCLI:
    """Start or resume one test run, configured by command-line arguments or by an equivalent mapping.

    Args:
        args: the arguments or the mapping.
        first: callbacks that precede all others and are not part of the configuration.
        hold: locks the run folder before anything in it is read; returns a callback that precedes `first`.

    Raises:
        KeyboardInterrupt: if a signal stopped the run, even if another error followed.
    """
    silence_lightning()
    with parser_errors_explained():
        cli = RunCLI(args, first, hold)
    with fixed_threads(cli.config.threads):
        return carry_out(cli)


@contextlib.contextmanager
def fixed_threads(number: int | None) -> Iterator[None]:
    """Compute with a fixed number of threads, since rounding depends on it; None: no change."""
    keep_memory()
    if number is None:
        yield
        return
    before = torch.get_num_threads()
    with threadpool_limits(number):  # the threads of NumPy, SciPy and OpenMP
        torch.set_num_threads(number)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def keep_memory() -> None:
    """Let glibc reuse freed memory in the next step.

    By default it returns each large block to Linux, and page faults then cost up to a tenth of a step.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(M_MMAP_THRESHOLD, 2**30)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def carry_out(cli: RunCLI) -> RunCLI:
    """Start or resume the configured run."""
    cli.model.check(cli.trainer)
    if cli.finished:
        if cli.trainer.strategy.launcher is not None:  # other streams may continue
            cli.trainer.strategy.launcher.launch(lambda: None)
        return cli
    if cli.config.compile and cli.trainer.world_size > 1:
        raise HoldfastError(
            "--compile does not support batches divided over several devices. Remove it, or use one "
            "device."
        )
    if cli.checkpoint is None and cli.trainer.is_global_zero:
        begin_folder(cli)
    if cli.config.channels_last:
        cli.model.to(memory_format=torch.channels_last)
    if cli.config.compile:
        cli.model.backbone.compile()
    try:
        test(cli)
    except Exception as error:
        if cli.keeper.stopped:
            why = " ".join(str(error).split()) or type(error).__name__
            raise KeyboardInterrupt(
                f"stopped; steps after the last checkpoint are lost ({why}); continue with --resume"
            ) from error
        raise
    if cli.keeper.stopped:
        raise KeyboardInterrupt(f"{cli.out} is finished: {result(cli.out)}")
    return cli


def test(cli: RunCLI) -> None:
    """Run `Trainer.test`."""
    try:
        with death_in_a_sentence():
            cli.trainer.test(
                cli.model,
                datamodule=cli.datamodule,
                ckpt_path=cli.checkpoint,
                weights_only=True,
                verbose=False,
            )
    except SystemExit as stop:  # raised by Lightning on Ctrl-C
        if isinstance(stop.__context__, KeyboardInterrupt):
            raise stop.__context__ from None
        raise
    except OSError as error:
        if error.errno not in NO_PLACE:
            raise
        raise unwritable(cli.out, error, GO_ON) from error


def hold(stack: contextlib.ExitStack, folder: Path) -> LeaseGuard:
    """Lock a run folder until the stack closes.

    Raises:
        Busy: if another process holds the lock.
    """
    lease = stack.enter_context(Lease(folder))
    if lease.took_over:
        replace_by_copy(folder / ROWS, folder / CHECKSUMS)
    return LeaseGuard(lease.check)


def begin_folder(cli: RunCLI) -> None:
    """Create the run folder with the configuration that repeats the run.

    Removes the files of a run that ended before its first checkpoint.
    """
    remove_run(cli.out)
    cli.out.mkdir(parents=True, exist_ok=True)
    cli.config.resume = False
    with whole_file(cli.out / CONFIG) as partial:
        cli.parser.save(
            on_one_device(cli.config),
            partial,
            overwrite=True,
            multifile=False,
            skip_check=True,
            skip_none=False,
        )


def silence_lightning() -> None:
    """Disable Lightning's advertisements and its warnings about intended behaviour."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    noise = (
        ".*LeafSpec.*|.*does not have many workers.*|.*sync_dist=True.*|.*before the ``update``.*"
    )
    warnings.filterwarnings("ignore", message=noise)


def main(argv: list[str]) -> int:
    """Run the command and print the accuracy."""
    argv = with_presets(argv)
    if any(re.match(r"--([\w.]+\.)?help\b", word) for word in argv):
        short_help(["--help" if word == "--trainer.help" else word for word in argv])
        return 0
    folder = resumed_folder(argv)
    if folder is not None and (folder / SUMMARY).exists():
        print(f"{folder} is finished: {result(folder)}")
        return 0
    config = folder and folder / CONFIG
    configured = any(word.startswith(("--model", "--config", "-c")) for word in argv)
    if config and config.exists() and not configured:
        argv = ["--config", str(config), *argv]
    for option, word in pairwise(["", *argv]):
        option, _, name = word.partition("=") if word.startswith("-") else (option, "", word)
        if option in ("--config", "-c") and name and Path(name).is_file():
            read_yaml(Path(name))  # gives a better message for invalid YAML than the parser
    with contextlib.ExitStack() as stack, one_rank_reports():
        cli = run(argv, hold=partial(hold, stack))
    if cli.trainer.is_global_zero:
        print(f"{result(cli.out)}, run folder {cli.out}")
    if failed := getattr(cli.trainer.strategy.launcher, "failed", 0):
        raise HoldfastError(
            f"{failed} of the other streams failed. Their errors are printed above."
        )
    return 0


def result(folder: Path) -> str:
    """The accuracy of a finished run as text."""
    accuracy = read_json(folder / SUMMARY).get("accuracy")
    return "no labels" if accuracy is None else f"accuracy {accuracy:.2%} (mean over batches)"


def resumed_folder(argv: list[str]) -> Path | None:
    """The folder of the run to resume, None without --resume."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true")
    known, _ = parser.parse_known_args(argv)
    return known.out if known.resume else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
