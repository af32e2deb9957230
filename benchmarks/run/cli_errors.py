"""Short error messages and help texts for the parser of `holdfast test`."""

import contextlib
import inspect
import io
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser
from lightning.pytorch import Callback, LightningDataModule

from ... import HoldfastError, callbacks, datamodules, methods
from ...class_paths import check_module
from ...datamodules import ImageSource
from ...methods import TTAMethod
from .cli_help import OPTIONS
from .config_guard import guarded
from .run_cli import RunCLI

# The command line finds the classes of these imported packages by their short names.
EXPECTED = {
    "model": (methods, TTAMethod),
    "data": (datamodules, LightningDataModule),
    "source": (datamodules, ImageSource),
    "validation": (datamodules, ImageSource),
    "callbacks": (callbacks, Callback),
}


@contextlib.contextmanager
def parser_errors_explained() -> Iterator[None]:
    """Convert errors of the parser, and of constructors that it calls, to one HoldfastError."""
    try:
        with guarded():
            yield
    except ArgumentError as error:
        raise HoldfastError(one_sentence(str(error))) from None
    except ValueError as error:  # from a constructor, wrapped by the parser
        raise constructor_error(error) or HoldfastError(one_sentence(str(error))) from error


def one_sentence(message: str) -> str:
    """Shorten a parser's message, with the valid names if a class name is wrong."""
    wrong = re.search(r"Expected a (?:path but|dot import path string:) (\S+)", message)
    keys = re.findall(r'Parser key "(?:[\w.]*\.)?(\w+)"', message[: wrong.start()] if wrong else "")
    if wrong and keys and "torch.nn.modules.module.Module" in message[wrong.end() :]:
        network = f"{{class_path: holdfast.methods.load_backbone, init_args: {{name: {wrong[1]}}}}}"
        return f"{keys[-1]} '{wrong[1]}' is only the name of a network. Pass {network}."
    if wrong and keys and keys[-1] in EXPECTED:
        package, base = EXPECTED[keys[-1]]
        if "." in wrong[1]:
            return f"{keys[-1]} {wrong[1]} {why_unusable(wrong[1], base)}."
        names = [name for name in package.__all__ if is_choice(getattr(package, name), base)]
        return f"{keys[-1]} '{wrong[1]}' is unknown. Choose one of {', '.join(sorted(names))}."
    if unknown := re.search(
        r"Option '([\w.]+)' is not accepted(?:\. Got value: \w+\(.*?class_path='([\w.]+)')?",
        message,
    ):
        owners = re.findall(r"class_path '([\w.]+)'", message[: unknown.start()])
        return unknown_option(unknown[1], unknown[2] or (owners[-1] if owners else None))
    if stray := re.search(r"Group 'trainer' does not accept option '(\w+)'", message):
        return unknown_option(stray[1], "lightning.pytorch.Trainer")
    if stray := re.match(r"unrecognized arguments: --([^ =]+)", message):
        return unknown_option(stray[1], None)
    if lacking := re.search(
        r"'([\w.]+)':\s+the following arguments are required: ([\w, ]+)", message
    ):
        return f"{lacking[1].rpartition('.')[2]} needs {lacking[2].strip()}. Add it."
    if missing := re.search(
        r"given class_path '([\w.]+)':\s+Requirement '([^']+)' not met", message
    ):
        name = missing[1].rpartition(".")[2]
        return f"{name} needs {missing[2]}. Run: pip install '{missing[2]}'."
    noise = re.compile(r"Given value|Subtypes:|Errors:|<class 'NoneType'>|Does not validate")
    lines = [line.strip(" -") for line in message.splitlines() if not noise.search(line)]
    return " ".join(line for line in lines if line)


def unknown_option(name: str, class_path: str | None) -> str:
    """The message about an unknown option of a class, or of the run if no class is given."""
    if class_path is None:
        names = ["model", "data", "trainer", "seed_everything", *OPTIONS]
        return f"'{name.partition('.')[0]}' is not an option. Choose one of {', '.join(names)}."
    module, _, short = class_path.rpartition(".")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(getattr(import_module(module), short), fail_untyped=False)
    names = [key for key in vars(parser.get_defaults()) if key not in ("config", "params")]
    more = ""
    if "optimizer" in names and name in (
        "lr",
        "learning_rate",
        "momentum",
        "weight_decay",
        "betas",
    ):
        option = name.replace("learning_rate", "lr")
        more = f", or set the optimizer's --model.optimizer.{option}"
    return f"'{name}' is not accepted by {short}. Choose one of {', '.join(names)}{more}."


def why_unusable(class_path: str, base: type) -> str:
    """The reason why a class path does not name a usable class of the required kind."""
    module, _, name = class_path.rpartition(".")
    check_module(class_path)
    try:
        thing = getattr(import_module(module), name)
    except Exception as error:  # the user's module may raise anything
        return f"cannot be imported ({type(error).__name__}: {error})"
    return "is abstract" if is_choice(thing, base, concrete=False) else f"is not a {base.__name__}"


def is_choice(thing: Any, base: type, concrete: bool = True) -> bool:
    """Whether `thing` is a subclass of `base` and, if required, concrete."""
    below = isinstance(thing, type) and issubclass(thing, base) and thing is not base
    return below and not (concrete and inspect.isabstract(thing))


def constructor_error(error: BaseException | None) -> HoldfastError | None:
    """The HoldfastError of a constructor, which the parser wraps in its own errors."""
    while error is not None and not isinstance(error, HoldfastError):
        error = error.__cause__ or error.__context__
    return error


def short_help(argv: list[str]) -> None:
    """Print a help text without the hundreds of torch modules allowed as a backbone."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        RunCLI(argv)
    print(re.sub(r",\s+known subclasses:[^)]*", "", text.getvalue()), end="")
