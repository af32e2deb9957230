"""Starts Python programs in no time: a process that has imported what they need forks for each.

What it forks is a process like any other, with output, folder, environment and signals of its own; but
for the first imports, it is `python WORDS`. `processes.Command` asks for it.
"""

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import struct
import sys
from typing import Any

from spares import SIZE, become, run, spares

NEEDED = ("run.one_run", "report_command", "suites.suite", "suites.cell_workers")
NEEDED_LATER = (
    *("matplotlib.backends.backend_agg", "torch.utils.tensorboard", "torch._dynamo"),
    "torch.distributed.launcher.api",
)


def serve(channel: socket.socket) -> dict[str, Any]:
    """Fork for each message, until nobody is left to send one; returns in what has been forked."""
    while True:
        message, files, *_ = socket.recv_fds(channel, SIZE, 2)
        if not message:
            os._exit(0)
        assert len(os.listdir("/proc/self/task")) == 1  # threads would be lost in a fork
        if not os.fork():
            channel.close()
            return keep(json.loads(message), *files)
        for file in files:
            os.close(file)


def keep(wanted: dict[str, Any], output: int, status: int) -> dict[str, Any]:
    """Fork, tell the process' id and then how it ended; returns in the process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        os.write(status, struct.pack("i", pid))
        _, ended = os.waitpid(pid, 0)
        os.write(status, struct.pack("i", os.waitstatus_to_exitcode(ended)))
        os._exit(0)
    os.close(status)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell has us ignore it
    become({1: output, 2: output}, **wanted)
    atexit.register(gc.unfreeze)  # what is left behind frozen would be told as leaks
    return wanted


if __name__ == "__main__":
    del sys.path[0]  # the tests' own folder
    for name in (*(f"holdfast.benchmarks.{name}" for name in NEEDED), *NEEDED_LATER):
        importlib.import_module(name)
    gc.freeze()  # lest a collection copies all that is shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who keep processes
    wanted = serve(socket.socket(fileno=int(sys.argv.pop(1))))
    run(spares(wanted["spares"]) or wanted["words"])
