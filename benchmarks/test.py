"""`holdfast test`: one method on one stream, from the command line or from YAML."""

import argparse
import contextlib
import errno
import inspect
import io
import logging
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentError
from jsonargparse.typing import PositiveInt
from lightning.pytorch import Callback, LightningDataModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from .. import HoldfastError, callbacks, datamodules, methods
from ..callbacks import RunRecord, StreamCheckpoint, StreamProgress, newest
from ..callbacks.checkpoint import GO_ON
from ..datamodules import ImageSource
from ..files import read_json, unwritable
from ..methods import TTAMethod
from ..methods.distributed.strategies import stream_number
from ..run_folder import ROWS, SUMMARY
from .devices import (
    become_stream,
    default_folder,
    first_rank_speaks,
    has_streams,
    on_one_device,
)

CHECKPOINTS, CONFIG = "checkpoints", "config.yaml"
NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)

# Importing these packages makes their classes known to the command line by their short names.
EXPECTED = {
    "model": (methods, TTAMethod),
    "data": (datamodules, LightningDataModule),
    "source": (datamodules, ImageSource),
    "validation": (datamodules, ImageSource),
    "callbacks": (callbacks, Callback),
}


class TestCLI(LightningCLI):
    """LightningCLI for one test run; adds the run folder, its record and the progress bar."""

    def __init__(self, args: Any, first: tuple[Callback, ...] = ()) -> None:
        self.first = first
        with warnings.catch_warnings():
            # Lightning suspects that arguments are given twice, in `args` and in sys.argv.
            warnings.filterwarnings("ignore", message=".*args parameter.*")
            self._parse(args)

    def _parse(self, args: Any) -> None:
        super().__init__(
            TTAMethod,
            LightningDataModule,
            save_config_callback=None,
            seed_everything_default=42,
            trainer_defaults={"devices": 1, "inference_mode": False},
            parser_kwargs={
                "prog": "holdfast test",
                "description": __doc__,
                "exit_on_error": False,
            },
            subclass_mode_model=True,
            subclass_mode_data=True,
            args=args,
            run=False,
            auto_configure_optimizers=False,
        )

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        super().parse_arguments(parser, args)
        if has_streams(self.config):
            become_stream(self.config, stream_number())

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument(
            "--out", type=Path | None, help="run folder (default: runs/METHOD-TIME)"
        )
        parser.add_argument(
            "--resume",
            action="store_true",
            help="go on with the run in --out from its last checkpoint; begin it if there is none",
        )
        parser.add_argument(
            "--save_every",
            type=PositiveInt | None,
            help="steps between two checkpoints (default: about a minute)",
        )
        parser.add_argument("--progress", type=bool, default=True, help="show a progress bar")
        parser.add_argument("--channels_last", type=bool, default=False, help="faster convolutions")
        parser.add_argument(
            "--compile", type=bool, default=False, help="torch.compile the backbone"
        )

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        if self.config.resume and self.config.out is None:
            raise HoldfastError("--resume goes on with a run: say which with --out FOLDER.")
        self.out = Path(self.config.out or default_folder(self.config))
        self.checkpoint = self._checkpoint()
        config: Any = self.config_init.trainer
        own = [RunRecord(self.out), *([StreamProgress()] if self.config.progress else [])]
        saves = StreamCheckpoint(self.out / CHECKPOINTS, self.config.save_every)
        kwargs["callbacks"] = [*self.first, *(config.callbacks or []), *own, saves]
        images = images_at(self.checkpoint)
        curves = TensorBoardLogger(self.out, name="", version="", purge_step=images and images + 1)
        kwargs.setdefault("logger", curves)
        quiet = {"enable_progress_bar": False, "enable_model_summary": False}
        limit = {"limit_test_batches": whole(config.limit_test_batches)}
        try:
            return Trainer(**{**config, **limit, **quiet, **kwargs})
        except (MisconfigurationException, RuntimeError, ValueError) as error:
            raise HoldfastError(" ".join(str(error).split())) from error

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to go on with."""
        return self.config.resume and (self.out / SUMMARY).exists()

    def _checkpoint(self) -> Path | None:
        """Where to go on; None to begin."""
        if not (self.out / ROWS).exists():
            return None
        if not self.config.resume:
            raise HoldfastError(
                f"{self.out} already holds a run: go on with it by --resume, give another --out, or "
                "remove it."
            )
        return newest(self.out / CHECKPOINTS)


def run(args: list[str] | dict[str, Any], *first: Callback) -> TestCLI:
    """One test run, configured by command-line words or by a mapping of the same names.

    Callbacks given here come before all others, and stand in no configuration.
    """
    quiet()
    try:
        cli = TestCLI(args, first)
    except ArgumentError as error:
        raise HoldfastError(explained(str(error))) from None
    except ValueError as error:  # from a constructor, wrapped by the parser
        raise refusal(error) or HoldfastError(explained(str(error))) from error
    cli.model.check(cli.trainer)
    if cli.finished:
        if cli.trainer.strategy.launcher is not None:  # of several streams, others may go on
            cli.trainer.strategy.launcher.launch(lambda: None)
        return cli
    if cli.config.compile and cli.trainer.world_size > 1:
        raise HoldfastError("--compile cannot divide a batch: leave it out, or use one device.")
    if cli.checkpoint is None and cli.trainer.is_global_zero:
        clear(cli.out)
        cli.out.mkdir(parents=True, exist_ok=True)
        cli.config.resume = False
        options = {"overwrite": True, "skip_check": True, "skip_none": False}
        cli.parser.save(on_one_device(cli.config), cli.out / CONFIG, **options)
    if cli.config.channels_last:
        cli.model.to(memory_format=torch.channels_last)
    if cli.config.compile:
        cli.model.backbone.compile()
    data, start = cli.datamodule, cli.checkpoint
    try:
        cli.trainer.test(cli.model, None, start, False, data, weights_only=True)
    except SystemExit as stop:  # what Lightning makes of Ctrl-C
        if isinstance(stop.__context__, KeyboardInterrupt):
            raise stop.__context__ from None
        raise
    except OSError as error:
        if error.errno not in NO_PLACE:
            raise
        raise unwritable(cli.out, error, GO_ON) from error
    return cli


def whole(batches: float | None) -> int | None:
    """A number of batches as Lightning wants it: the parser makes 1 into 1.0, which would mean all."""
    if batches is not None and (batches < 1 or batches % 1):
        raise HoldfastError(
            f"limit_test_batches={batches:g}: give a whole number of batches; a stream has no fractions."
        )
    return None if batches is None else int(batches)


def images_at(checkpoint: Path | None) -> int | None:
    """How many images a run had seen when it wrote a checkpoint."""
    if checkpoint is None:
        return None
    saved = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
    return saved["callbacks"][RunRecord.__qualname__]["images"]


def clear(folder: Path) -> None:
    """Remove what a run left that was cut before its first checkpoint."""
    for path in (folder / ROWS, *folder.glob("events.out.tfevents.*")):
        path.unlink(missing_ok=True)


def quiet() -> None:
    """Keep Lightning from advertising and from warning of what is on purpose."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    noise = (
        ".*LeafSpec.*|.*does not have many workers.*|.*sync_dist=True.*|.*before the ``update``.*"
    )
    warnings.filterwarnings("ignore", message=noise)


def explained(message: str) -> str:
    """A parser's message as one sentence, with the valid names where a class name was wrong."""
    wrong = re.search(r"Expected a path but (\S+) either", message)
    keys = re.findall(r'Parser key "(?:[\w.]*\.)?(\w+)"', message[: wrong.start()] if wrong else "")
    if wrong and keys and "torch.nn.modules.module.Module" in message[wrong.end() :]:
        network = f"{{class_path: holdfast.methods.load_backbone, init_args: {{name: {wrong[1]}}}}}"
        return f"{keys[-1]} '{wrong[1]}' is only a network's name: give {network}."
    if wrong and keys and keys[-1] in EXPECTED:
        package, base = EXPECTED[keys[-1]]
        known = [n for n in package.__all__ if is_choice(getattr(package, n), base)]
        return f"{keys[-1]} '{wrong[1]}' is unknown: choose one of {', '.join(sorted(known))}."
    if lacking := re.search(
        r"'([\w.]+)':\s+the following arguments are required: ([\w, ]+)", message
    ):
        return f"{lacking[1].rpartition('.')[2]} needs {lacking[2].strip()}: give it."
    noise = re.compile(r"Given value|Subtypes:|Errors:|<class 'NoneType'>|Does not validate")
    lines = [line.strip(" -") for line in message.splitlines() if not noise.search(line)]
    return " ".join(line for line in lines if line)


def is_choice(thing: Any, base: type) -> bool:
    """Whether `thing` is a concrete class below `base`."""
    below = isinstance(thing, type) and issubclass(thing, base) and thing is not base
    return below and not inspect.isabstract(thing)


def refusal(error: BaseException | None) -> HoldfastError | None:
    """The HoldfastError of a constructor, which the parser wraps in errors of its own."""
    while error is not None and not isinstance(error, HoldfastError):
        error = error.__cause__ or error.__context__
    return error


def short_help(argv: list[str]) -> None:
    """Print a help text without the hundreds of torch modules that a backbone could be."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        TestCLI(argv)
    print(re.sub(r",\s+known subclasses:[^)]*", "", text.getvalue()), end="")


def main(argv: list[str]) -> int:
    """Run and print the accuracies."""
    if any(word == "-h" or re.match(r"--([\w.]+\.)?help\b", word) for word in argv):
        short_help(argv)
        return 0
    folder = resumed_folder(argv)
    if folder is not None and (folder / SUMMARY).exists():
        print(f"{folder} is finished: {told(folder)}")
        return 0
    config = folder and folder / CONFIG
    if (
        config
        and config.exists()
        and not any(w.startswith(("--model", "--config", "-c")) for w in argv)
    ):
        argv = ["--config", str(config), *argv]
    with first_rank_speaks():
        cli = run(argv)
    if cli.trainer.is_global_zero:
        print(f"{told(cli.out)}, run folder {cli.out}")
    if failed := getattr(cli.trainer.strategy.launcher, "failed", 0):
        raise HoldfastError(f"{failed} of the other streams failed, for the reasons given above.")
    return 0


def told(folder: Path) -> str:
    """A finished run's result in a few words."""
    accuracy = read_json(folder / SUMMARY).get("accuracy")
    return "no labels" if accuracy is None else f"accuracy {accuracy:.2%} (mean over batches)"


def resumed_folder(argv: list[str]) -> Path | None:
    """The folder of the run to go on with, if that is what these words ask for."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true")
    known, _ = parser.parse_known_args(argv)
    return known.out if known.resume else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
