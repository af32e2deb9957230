"""What lies in the folder of a run, and how to read it, also while it is being written."""

import json
from pathlib import Path
from secrets import token_hex
from typing import Any

ROWS, PROVENANCE, SUMMARY = "record.jsonl", "provenance.json", "summary.json"  # of every run
CELL, ERROR = "cell.json", "error.txt"  # of a suite's runs: what is to be run; why it failed


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write the file as a whole or not at all, whoever else may be writing it."""
    partial = path.with_name(f"{path.name}.{token_hex(4)}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """The content of such a file, {} if there is none."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run, without what a kill or a power cut may have torn at the end."""
    return rows_in((folder / ROWS).read_bytes())


def rows_in(record: bytes) -> list[dict[str, Any]]:
    """The whole rows at the beginning of a part of a record."""
    rows = []
    for line in record.splitlines(keepends=True):
        try:
            rows.append(json.loads(line[: line.index(b"\n")]))
        except ValueError:  # no end of line, or no JSON in it
            break
    return rows


def error_of(folder: Path) -> str | None:
    """Why the run failed, in one line; None if it did not."""
    try:
        return (folder / ERROR).read_text().partition("\n")[0]
    except FileNotFoundError:
        return None
