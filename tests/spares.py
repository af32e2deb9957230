"""Processes that wait to become a Python program which another process starts: its imports are done.

A process that is forked for a test (see forkserver.py) forks some in turn before it begins. When it
starts a program by `sys.executable`, be it by subprocess or by multiprocessing, one of them becomes that
program: its child as ever, with the words, open files, folder and environment that it was to have.
"""

import _posixsubprocess
import fcntl
import json
import os
import random
import runpy
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

SIZE, FILES = 1 << 20, 16  # of a message, in bytes and in open files
BEYOND = 500  # file descriptors that nobody has asked for
Ready = list[tuple[int, socket.socket]]  # ids, and how to reach them


def spares(count: int) -> list[str] | None:
    """Fork so many; returns nothing here, and in each of them the words of what it is to become."""
    ready: Ready = []
    for _ in range(count):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if pid := os.fork():
            theirs.close()
            ready.append((pid, ours))
            continue
        for channel in [ours, *(channel for _, channel in ready)]:
            channel.close()
        message, files, *_ = socket.recv_fds(theirs, SIZE, FILES)
        theirs.close()
        if not message:  # who could have asked has ended
            os._exit(0)
        wanted = json.loads(message)
        become(dict(zip(wanted["numbers"], files, strict=True)), **wanted)
        return wanted["words"]
    if ready:
        real = _posixsubprocess.fork_exec
        for module, name in ((_posixsubprocess, "fork_exec"), (subprocess, "_fork_exec")):
            setattr(module, name, partial(fork_exec, real, ready))
    return None


def fork_exec(
    real: Callable[..., int],
    ready: Ready,
    words: list[Any],
    executables: Any,
    close: bool,
    passed: tuple[int, ...],
    folder: Any,
    environment: list[bytes] | None,
    *more: Any,
) -> int:
    """What subprocess and multiprocessing call; the id of what was started."""
    names = [os.fsdecode(word) for word in words]
    if not ready or names[0] != sys.executable or any("resource_tracker" in n for n in names):
        return real(words, executables, close, passed, folder, environment, *more)
    stdin, _, _, stdout, _, stderr, _, errors, _, session, *_ = more
    files = {number: number for number in passed if number != errors}
    files |= {n: file for n, file in enumerate((stdin, stdout, stderr)) if file >= 0}
    pairs = [os.fsdecode(line).partition("=") for line in environment or ()]
    wanted = {
        "words": names[1:],
        "numbers": list(files),
        "folder": os.fsdecode(folder or os.getcwd()),
        "environment": dict(os.environ) if environment is None else {k: v for k, _, v in pairs},
        "session": bool(session),
    }
    pid, channel = ready.pop()
    socket.send_fds(channel, [json.dumps(wanted).encode()], list(files.values()))
    channel.close()
    return pid


def become(
    files: Mapping[int, int], folder: str, environment: dict[str, str], session: bool, **_: Any
) -> None:
    """Take the open files, by the numbers that they are to have, the folder, environment and session."""
    if session:
        os.setsid()
    away = {n: fcntl.fcntl(file, fcntl.F_DUPFD, BEYOND) for n, file in files.items()}
    for file in set(files.values()):
        os.close(file)
    for number, file in away.items():
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    np.random.seed()  # noqa: NPY002
    if not environment.get("PYTHONSAFEPATH"):
        sys.path.insert(0, os.getcwd())


def run(words: list[str]) -> None:
    """What `python WORDS` runs: -c CODE, -m MODULE or a test's file, and their own words."""
    while words[0] not in ("-c", "-m") and words[0].startswith("-"):
        words = words[1:]  # the interpreter's own
    kind, *rest = words
    if kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})
    elif kind == "-m":
        sys.argv = ["-m", *rest[1:]]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[:0] = [os.path.dirname(os.path.abspath(kind)), os.path.dirname(__file__)]
        runpy.run_path(kind, run_name="__main__")
