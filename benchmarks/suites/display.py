"""The display of a running suite: one line per current run, and one per finished or failed run."""

import shutil
import sys
import threading
from pathlib import Path

from ... import printable
from ..results.run_state import Progress
from ..results.text_table import aligned


class Display:
    """A context manager that shows one line per started run and keeps it up to date.

    On a terminal the lines are rewritten in place every second; elsewhere they are printed every
    `every` seconds.
    """

    def __init__(self, every: float = 60) -> None:
        self.out = sys.stdout
        self.live = self.out.isatty()
        self.every = 1 if self.live else every
        self._runs: dict[Path, str] = {}
        self._shown = 0  # number of lines that the next drawing replaces
        self._lock, self._done = threading.Lock(), threading.Event()

    def __enter__(self) -> "Display":
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        with self._lock:
            self._clear()

    def begin(self, folder: Path, name: str) -> None:
        """Start to show this run."""
        with self._lock:
            self._runs[folder] = name
            if self.live:
                self._draw()
            else:
                print(printable(f"{name} begins"), file=self.out, flush=True)

    def end(self, folder: Path, text: str) -> None:
        """Replace its line with this permanent message."""
        with self._lock:
            self._runs.pop(folder, None)
            self._clear()
            print(printable(text), file=self.out, flush=True)
            if self.live:
                self._draw()

    def _run(self) -> None:
        while not self._done.wait(self.every):
            with self._lock:
                self._draw()

    def _clear(self) -> None:
        if self._shown:
            print(f"\033[{self._shown}F\033[J", end="", file=self.out, flush=True)
        self._shown = 0

    def _draw(self) -> None:
        if not self._runs:
            return
        lines = [(name, *Progress(folder).texts()) for folder, name in self._runs.items()]
        text = aligned(lines)
        if self.live:
            self._clear()
            width = shutil.get_terminal_size().columns - 1
            text = "\n".join(line[:width] for line in text.splitlines())
            self._shown = len(lines)
        print(text, file=self.out, flush=True)
