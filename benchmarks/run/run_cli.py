"""The command line of one run: LightningCLI with run folder, record and progress bar."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonargparse.typing import PositiveInt
from lightning.pytorch import Callback, LightningDataModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from ... import HoldfastError, datamodules
from ...callbacks import RunRecord, StreamCheckpoint, newest
from ...callbacks.observer import name_apart
from ...methods import TTAMethod
from ...methods.distributed.strategies import stream_number
from ...run_folder import CHECKPOINTS, ROWS, SUMMARY, refuse_links
from .cli_help import OPTIONS
from .config_guard import networks_by_full_path
from .multi_stream import become_stream, default_folder, has_streams, is_further_rank
from .optimizer_option import with_optimizer

KNOWN = datamodules  # imported so that the parser finds streams and sources by their short names


class RunCLI(LightningCLI):
    """LightningCLI for one test run, with run folder, record and progress bar."""

    def __init__(
        self,
        args: Any,
        first: tuple[Callback, ...] = (),
        hold: Callable[[Path], Callback] | None = None,
    ) -> None:
        self.first, self.hold = first, hold
        with warnings.catch_warnings(), networks_by_full_path():
            # Lightning warns if arguments are in both `args` and sys.argv.
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
                "description": "Run one method on one stream.",
                "exit_on_error": False,
            },
            subclass_mode_model=True,
            subclass_mode_data=True,
            args=args,
            run=False,
            auto_configure_optimizers=False,
        )

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        super().parse_arguments(parser, with_optimizer(parser, args))
        if has_streams(self.config):
            become_stream(self.config, stream_number())

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--out", type=Path | None, help=OPTIONS["out"])
        parser.add_argument("--resume", action="store_true", help=OPTIONS["resume"])
        parser.add_argument("--save_every", type=PositiveInt | None, help=OPTIONS["save_every"])
        parser.add_argument("--threads", type=PositiveInt | None, help=OPTIONS["threads"])
        parser.add_argument("--progress", type=bool, default=True, help=OPTIONS["progress"])
        for name in ("channels_last", "compile"):
            parser.add_argument(f"--{name}", type=bool, default=False, help=OPTIONS[name])

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        if self.config.resume and self.config.out is None:
            raise HoldfastError("--resume needs the folder of a run. Pass --out FOLDER.")
        self.out = Path(self.config.out or default_folder(self.config))
        refuse_links(self.out)
        first = [self.hold(self.out)] if self.hold and not is_further_rank(self.config) else []
        self.checkpoint = self._checkpoint()
        self.keeper = StreamCheckpoint(self.out / CHECKPOINTS, self.config.save_every)
        config: dict[str, Any] = {**self.config_init.trainer, **kwargs}
        config["callbacks"] = [
            *first,
            *self.first,
            *(config["callbacks"] or []),
            RunRecord(self.out),
            self.keeper,
        ]
        name_apart(config["callbacks"])
        config["limit_test_batches"] = whole_batches(config["limit_test_batches"])
        config["enable_progress_bar"], config["enable_model_summary"] = self.config.progress, False
        config["logger"] = config["logger"] or False  # `RunRecord` writes the curves
        try:
            return Trainer(**config)
        except (MisconfigurationException, RuntimeError, ValueError) as error:
            raise HoldfastError(" ".join(str(error).split())) from error

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return self.config.resume and (self.out / SUMMARY).exists()

    def _checkpoint(self) -> Path | None:
        """The checkpoint to resume from; None to start."""
        if not (self.out / ROWS).exists():
            return None
        if not self.config.resume:
            raise HoldfastError(
                f"{self.out} already contains a run. Continue it with --resume, choose another --out, "
                "or delete it."
            )
        return newest(self.out / CHECKPOINTS)


def whole_batches(batches: float | None) -> int | None:
    """A number of batches as int, as the parser makes 1 into 1.0, which Lightning takes for all batches."""
    if batches is not None and (batches < 1 or batches % 1):
        raise HoldfastError(
            f"limit_test_batches={batches:g} is not a whole number. Pass a number of batches; streams "
            "do not support fractions."
        )
    return None if batches is None else int(batches)
