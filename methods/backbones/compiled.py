"""`--compile`: PyTorch's compiler for the network where it works, and without it where it does not."""

import logging
import re

import torch
from lightning.pytorch.utilities import rank_zero_warn
from torch import nn

_ERROR = re.compile(r"[\w.]*(Error|Exception): ")  # an exception's line in a traceback
_DYNAMO = "torch._dynamo.convert_frame"  # which logs a failure as a traceback


def compile_network(network: nn.Module) -> None:
    """Compile the network in place at its first batch; what does not compile runs as without it."""
    torch._dynamo.config.suppress_errors = True
    logger = logging.getLogger(_DYNAMO)
    if not any(isinstance(known, _InASentence) for known in logger.filters):
        logger.addFilter(_InASentence())
    network.compile()


class _InASentence(logging.Filter):
    """Says what failed in a sentence instead of a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        lines = logging.Formatter().format(record).splitlines()
        why = next((line for line in reversed(lines) if _ERROR.match(line)), lines[0])
        rank_zero_warn(
            f"--compile does not compile a part of the network, which runs without it ({why})."
        )
        return False
