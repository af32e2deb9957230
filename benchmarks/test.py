"""`holdfast test`: run one method on one stream (LightningCLI), from the command line or from YAML."""

import argparse
import contextlib
import ctypes
import errno
import io
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from functools import cache
from inspect import isclass
from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import ArgumentError, Namespace, get_loader, set_loader
from jsonargparse.typing import PositiveInt
from lightning.pytorch import Callback, LightningDataModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from threadpoolctl import threadpool_limits

from .. import HoldfastError, callbacks, datamodules, methods
from ..callbacks import RunRecord, StreamCheckpoint, newest
from ..callbacks.checkpoint import GO_ON
from ..callbacks.observer import name_apart
from ..datamodules.loader import death_in_a_sentence
from ..files import check_keys, read_json, unwritable, whole_file
from ..methods import TTAMethod
from ..methods.backbones.compiled import compile_network
from ..methods.backbones.load import check_name
from ..methods.checks import check_trainer
from ..run_folder import CHECKPOINTS, CONFIG, ROWS, SUMMARY, held, remove_run
from .presets import with_presets

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # constants of malloc.h
NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
KINDS = {
    "model": (methods, TTAMethod),
    "data": (datamodules, LightningDataModule),
    "source": (datamodules, datamodules.ImageSource),
    "callbacks": (callbacks, Callback),
}


class RunCLI(LightningCLI):
    """LightningCLI for one test run, with run folder, record and checkpoints."""

    def __init__(self, args: Any) -> None:
        with warnings.catch_warnings():
            # Lightning warns if arguments are in both `args` and sys.argv.
            warnings.filterwarnings("ignore", message=".*args parameter.*")
            super().__init__(
                TTAMethod,
                LightningDataModule,
                save_config_callback=None,
                seed_everything_default=42,
                trainer_defaults={"devices": 1, "inference_mode": False},
                parser_kwargs={
                    "prog": "holdfast test",
                    "description": "Run one method on one stream.",
                    "exit_on_error": False,
                },
                subclass_mode_model=True,
                subclass_mode_data=True,
                args=args,
                run=False,
                auto_configure_optimizers=False,
                load_from_checkpoint_support=False,  # which dumps the configuration twice
            )

    def setup_parser(self, *_: Any) -> None:
        self.parser = parser()

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        add, number = parser.add_argument, PositiveInt | None
        add("--out", type=Path | None, help="run folder (default: runs/METHOD-TIME)")
        add("--resume", action="store_true", help="resume the run in --out, or start it")
        add("--save_every", type=number, help="steps between checkpoints (default: a minute's)")
        keep = (
            "keep all checkpoints, also of a finished run (for `holdfast leaderboard check --runs`)"
        )
        add("--keep_checkpoints", type=bool, default=False, help=keep)
        add("--threads", type=number, help="CPU threads; the same number gives the same bits")
        add("--progress", type=bool, default=True, help="show a progress bar")
        add("--channels_last", type=bool, default=False, help="store images and weights as NHWC")
        add("--compile", type=bool, default=False, help="compile the backbone where that works")

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        method = self.config.model.class_path.rpartition(".")[2]
        self.out = Path(self.config.out or f"runs/{method}-{datetime.now():%Y%m%d-%H%M%S}")
        number = None if self.config.keep_checkpoints else 2
        self.keeper = StreamCheckpoint(self.out / CHECKPOINTS, self.config.save_every, number)
        config: dict[str, Any] = {**self.config_init.trainer, **kwargs}
        config["callbacks"] = [*(config["callbacks"] or []), RunRecord(self.out), self.keeper]
        name_apart(config["callbacks"])
        config["limit_test_batches"] = whole_batches(config["limit_test_batches"])
        config["enable_progress_bar"] = self.config.progress
        config["enable_model_summary"] = False
        config["logger"] = config["logger"] or False  # `RunRecord` writes the curves
        try:
            return Trainer(**config)
        except (MisconfigurationException, RuntimeError, ValueError) as error:
            raise HoldfastError(" ".join(str(error).split())) from error


class ParseCLI(RunCLI):
    """Builds a parser, and creates nothing else."""

    def setup_parser(self, *args: Any) -> None:
        LightningCLI.setup_parser(self, *args)

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        self.config = Namespace(seed_everything=False)

    def instantiate_classes(self) -> None:
        pass


@cache
def parser() -> LightningArgumentParser:
    """The parser of `holdfast test`, which all runs of a process share: building one takes long."""
    load_yaml = get_loader("yaml")

    def load(text: str) -> Any:
        if "\n" in text or "{" in text:  # else it has no two keys
            check_keys(text)
        return load_yaml(text)

    set_loader("yaml", load, (yaml.YAMLError,))
    return ParseCLI(None).parser


def parsed(args: list[str] | dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration of a run, with the defaults of all classes.

    Raises:
        HoldfastError: if names or types of arguments, or the name of the backbone, are invalid.
    """
    with parser_errors():
        if isinstance(args, dict):
            config = parser().parse_object(args).as_dict()
        else:
            config = parser().parse_args(args).as_dict()
    backbone = config["model"].get("init_args", {}).get("backbone")
    if isinstance(backbone, str):
        check_name(backbone)
    return config


def parts(config: dict[str, Any]) -> tuple[TTAMethod, Any]:
    """Method and stream of a run's configuration."""
    with parser_errors():
        instances = parser().instantiate_classes(parser().parse_object(config))
    return instances.model, instances.data


def whole_batches(batches: float | None) -> int | None:
    """A number of batches as int, as the parser makes 1 into 1.0, which Lightning takes for all batches."""
    if batches is not None and (batches < 1 or batches % 1):
        raise HoldfastError(
            f"limit_test_batches={batches:g} is not a whole number. Pass a number of batches; streams "
            "do not support fractions."
        )
    return None if batches is None else int(batches)


def run(args: list[str] | dict[str, Any]) -> RunCLI:
    """Start or resume one test run, configured by command-line arguments or by an equivalent mapping.

    Raises:
        HoldfastError: if the configuration is invalid, or another process has the run folder.
        KeyboardInterrupt: if a signal stopped the run, even if another error followed.
    """
    silence_lightning()
    with parser_errors():
        cli = RunCLI(args)
    # Further processes share the work of a run whose folder the first one writes.
    with held(cli.out) if cli.trainer.is_global_zero else contextlib.nullcontext():
        return carry_out(cli)


def carry_out(cli: RunCLI) -> RunCLI:
    """Start or resume the configured run."""
    config, begun = cli.config, (cli.out / ROWS).exists()
    if config.resume and (cli.out / SUMMARY).exists():
        return cli
    if begun and not config.resume:
        raise HoldfastError(
            f"{cli.out} already contains a run. Continue it with --resume, choose another --out, "
            "or delete it."
        )
    check_trainer(cli.trainer)
    if config.compile and cli.trainer.world_size > 1:
        raise HoldfastError(
            "--compile does not support batches divided over several devices. Remove it, or use one "
            "device."
        )
    checkpoint = newest(cli.out / CHECKPOINTS) if begun else None
    if checkpoint is None and cli.trainer.is_global_zero:
        begin_folder(cli)
    if config.channels_last:
        cli.model.to(memory_format=torch.channels_last)
    if config.compile:
        compile_network(cli.model.backbone)
    try:
        with fixed_threads(config.threads):
            test(cli, checkpoint)
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


def begin_folder(cli: RunCLI) -> None:
    """Create the run folder with the resolved configuration, which repeats the run.

    Removes the files of a run that ended before its first checkpoint.
    """
    remove_run(cli.out)
    cli.config.resume = False
    with whole_file(cli.out / CONFIG) as partial:
        cli.parser.save(
            cli.config, partial, overwrite=True, multifile=False, skip_check=True, skip_none=False
        )


def test(cli: RunCLI, checkpoint: Path | None) -> None:
    try:
        with death_in_a_sentence():
            cli.trainer.test(
                cli.model,
                datamodule=cli.datamodule,
                ckpt_path=checkpoint,
                weights_only=True,
                verbose=False,
            )
    except SystemExit as stop:  # raised by Lightning on Ctrl-C
        if isinstance(stop.__context__, KeyboardInterrupt):
            raise stop.__context__ from None
        raise
    except OSError as error:
        if not cli.out.is_dir():
            raise HoldfastError(
                f"{cli.out} was renamed or removed while its run was writing it. Restore its name and "
                f"pass --resume to continue from its last checkpoint, or repeat the run."
            ) from error
        if error.errno not in NO_PLACE:
            raise
        raise unwritable(cli.out, error, GO_ON) from error


@contextlib.contextmanager
def fixed_threads(number: int | None) -> Iterator[None]:
    """Compute with a fixed number of threads, since rounding depends on it; None: no change."""
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        # Let glibc reuse freed memory in the next step: by default it returns each large block to Linux,
        # and page faults then cost up to a tenth of a step.
        mallopt(M_MMAP_THRESHOLD, 2**30)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
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


def silence_lightning() -> None:
    """Disable Lightning's messages about the Trainer and its warnings about intended behaviour."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    noise = (
        ".*LeafSpec.*|.*does not have many workers.*|.*sync_dist=True.*|.*before the ``update``.*"
    )
    warnings.filterwarnings("ignore", message=noise)


@contextlib.contextmanager
def parser_errors() -> Iterator[None]:
    """Convert errors of the parser, and of constructors that it calls, to one HoldfastError."""
    try:
        yield
    except (ArgumentError, ValueError) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, HoldfastError):
            cause = cause.__cause__ or cause.__context__
        raise cause or HoldfastError(one_sentence(str(error))) from error


def one_sentence(message: str) -> str:
    """A message of the parser without its list of attempts; a wrong class name with the valid ones."""
    wrong = re.search(r"Expected a (?:path but|dot import path string:) (\S+)", message)
    keys = re.findall(r'Parser key "(?:[\w.]*\.)?(\w+)"', message[: wrong.start()] if wrong else "")
    if wrong and keys and "." not in wrong[1] and keys[-1] in KINDS:
        package, base = KINDS[keys[-1]]
        things = vars(package).items()
        fit = [n for n, t in things if isclass(t) and issubclass(t, base) and t is not base]
        near = get_close_matches(wrong[1], fit, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(sorted(fit))}."
        return f"{keys[-1]} '{wrong[1]}' is unknown. {hint} Your own class needs its class path."
    option = r"\"(model|data)\":.*?given class_path '([\w.]+)':\s+Option '(\w+)' is not accepted"
    if unknown := re.search(option, message, re.S):
        key, name = unknown[1], unknown[2].rpartition(".")[2]
        return f"{name} has no option '{unknown[3]}'. List its options with --{key}.help {name}."
    if unknown := re.search(r"unrecognized arguments: --(\w+)", message):
        part = {"backbone": "model", "source": "data"}.get(unknown[1])
        hint = f"--{part}.{unknown[1]}" if part else ""
        message += f". Did you mean {hint}?" if hint else ""
    noise = re.compile(r"Given value|Subtypes:|Errors:|<class 'NoneType'>|Does not validate")
    lines = [line.strip(" -") for line in message.splitlines() if not noise.search(line)]
    text = " ".join(line for line in lines if line)
    return re.sub(r"Expected a path but (\S+) either not accessible or invalid", r"\1:", text)


def main(argv: list[str]) -> int:
    """Run the command and print the accuracy."""
    argv = with_presets(argv)
    if any(re.match(r"--([\w.]+\.)?help\b", word) for word in argv):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit), parser_errors():
            parser().parse_args(argv)
        # Without the hundreds of torch modules that may be a backbone.
        print(re.sub(r",\s+known\s+subclasses:[^)]*", "", text.getvalue()), end="")
        return 0
    cli = run(with_saved_config(argv))
    if cli.trainer.is_global_zero:
        print(f"{cli.out} is finished: {result(cli.out)}")
    return 0


def with_saved_config(argv: list[str]) -> list[str]:
    """The command line with the configuration in the folder to resume, unless it has one of its own.

    Raises:
        HoldfastError: if --resume has no folder.
    """
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--out", type=Path)
    options.add_argument("--resume", action="store_true")
    named, others = options.parse_known_args(argv)
    if not named.resume:
        return argv
    if named.out is None:
        raise HoldfastError("--resume needs the folder of a run. Pass --out FOLDER.")
    configured = any(word.startswith(("--model", "--config", "-c")) for word in others)
    saved = named.out / CONFIG
    return argv if configured or not saved.exists() else ["--config", str(saved), *argv]


def result(folder: Path) -> str:
    """The accuracy of a finished run as text."""
    accuracy = read_json(folder / SUMMARY).get("accuracy")
    return "no labels" if accuracy is None else f"accuracy {accuracy:.2%} (mean over batches)"
