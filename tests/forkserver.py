"""Starts `holdfast` commands in no time: a process that has imported what they need forks for each.

What it forks is a process like any other, with output, folder, environment and signals of its own; but
for the first imports, it is `python -m holdfast.benchmarks.cli WORDS`. `processes.Command` asks for it.
"""

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import struct
import sys
from typing import Any

import numpy as np

SIZE = 1 << 20  # of a message, in bytes
NEEDED = ("test", "results.report", "suites.suite", "suites.workers")
NEEDED_LATER = ("matplotlib.backends.backend_agg", "torch.utils.tensorboard")


def serve(channel: socket.socket) -> None:
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


def keep(wanted: dict[str, Any], output: int, status: int) -> None:
    """Fork, tell the process' id and then how it ended; returns in the process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        os.write(status, struct.pack("i", pid))
        _, ended = os.waitpid(pid, 0)
        os.write(status, struct.pack("i", os.waitstatus_to_exitcode(ended)))
        os._exit(0)
    os.close(status)
    if wanted["session"]:
        os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell has us ignore it
    random.seed()
    np.random.seed()  # noqa: NPY002
    if not os.environ.get("PYTHONSAFEPATH"):
        sys.path.insert(0, os.getcwd())
    sys.argv[1:] = wanted["words"]
    atexit.register(gc.unfreeze)  # what is left behind frozen would be told as leaks


if __name__ == "__main__":
    for name in (*(f"holdfast.benchmarks.{name}" for name in NEEDED), *NEEDED_LATER):
        importlib.import_module(name)
    gc.freeze()  # lest a collection copies all that is shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who keep processes
    serve(socket.socket(fileno=int(sys.argv.pop(1))))
    runpy.run_module("holdfast.benchmarks.cli", run_name="__main__", alter_sys=True)
