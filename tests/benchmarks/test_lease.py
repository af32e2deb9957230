"""Only one process at a time owns a folder: races, killed and suspended owners, with real
processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import until

from holdfast import HoldfastError
from holdfast.lease import Busy, Lease, LeaseLost, owner, replace_by_copy

HEAD = "import sys, time\nfrom pathlib import Path\nfrom holdfast.lease import *\n"


def start_python(code: str, *words: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", HEAD + code, *map(str, words)], text=True)


def holder(folder: Path, seconds: float = 60, renew: float = 10) -> subprocess.Popen:
    """A process that owns the folder until it is terminated."""
    code = "with Lease(sys.argv[1], *map(float, sys.argv[2:])): time.sleep(60)"
    process = start_python(code, folder, seconds, renew)
    until(lambda: f"process {process.pid}" in (owner(folder) or ""))
    return process


def owners(folder: Path) -> list[str]:
    """How each owner ended, in turn; "" for one that has not."""
    texts = [path.read_text() for path in sorted((folder / "owners").iterdir())]
    ends = [text.splitlines()[1:] for text in texts]
    return [json.loads(end[0])["ended"] if end else "" for end in ends]


def of_another_machine(folder: Path, age: float) -> None:
    """An owner elsewhere that renewed `age` seconds ago."""
    (folder / "owners").mkdir(parents=True)
    path = folder / "owners" / "0001"
    facts = {"host": "node7", "pid": 1, "machine": "another", "started": "1", "token": "x"}
    path.write_text(json.dumps(facts) + "\n")
    os.utime(path, (time.time() - age,) * 2)


def test_one_at_a_time(tmp_path: Path) -> None:
    with Lease(tmp_path) as lease:
        lease.check()
        assert f"process {os.getpid()}" in (owner(tmp_path) or "")
        with pytest.raises(Busy, match=f"process {os.getpid()}"), Lease(tmp_path):
            pass
    assert owner(tmp_path) is None
    with Lease(tmp_path) as lease:
        assert not lease.took_over
    assert owners(tmp_path) == ["released", "released"]


@pytest.mark.parametrize("before", ["nobody", "a dead owner"])
def test_of_those_who_race_one_wins(tmp_path: Path, before: str) -> None:
    """Five processes reach for each of 40 folders at the same moment."""
    folders = [tmp_path / f"{number:02d}" for number in range(40)]
    for folder in folders if before == "a dead owner" else ():
        of_another_machine(folder, age=61)
    code = (
        "go, out, *folders = sys.argv[1:]\nheld, result = [], []\n"
        "Path(out).touch()\n"
        "while not Path(go).exists(): time.sleep(0.001)\n"
        "start = float(Path(go).read_text())\n"
        "for number, folder in enumerate(folders):\n"
        "    while time.time() < start + 0.02 * number: pass\n"
        "    lease = Lease(folder)\n"
        "    try: held.append(lease.__enter__()); result.append('won')\n"
        "    except Busy: result.append('busy')\n"
        "Path(out).write_text(' '.join(result))\n"
        "time.sleep(60)\n"
    )
    go = tmp_path / "go"
    processes = [start_python(code, go, tmp_path / f"out{n}", *folders) for n in range(5)]
    try:
        until(lambda: len(list(tmp_path.glob("out*"))) == 5)  # all are ready
        (tmp_path / "soon").write_text(str(time.time() + 0.2))
        (tmp_path / "soon").rename(go)
        until(lambda: all(path.read_text() for path in tmp_path.glob("out*")))
        results = [path.read_text().split() for path in tmp_path.glob("out*")]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    wins = [list(of_one).count("won") for of_one in zip(*results, strict=True)]
    assert wins == [1] * len(folders)
    assert sum("won" in of_one for of_one in results) > 1, "it was no race"


def test_a_killed_owner_is_succeeded_at_once(tmp_path: Path) -> None:
    process = holder(tmp_path)
    with pytest.raises(Busy, match=f"process {process.pid}"), Lease(tmp_path):
        pass
    process.kill()
    until(lambda: owner(tmp_path) is None)  # also while nobody has waited for it
    with Lease(tmp_path) as lease:
        assert lease.took_over
    process.wait()
    assert owners(tmp_path)[0].startswith("taken over by")


def test_an_owner_elsewhere_has_its_time(tmp_path: Path) -> None:
    """Whether a process of another machine lives is not known, however small its number."""
    of_another_machine(tmp_path, age=50)
    with pytest.raises(Busy, match="node7, process 1"), Lease(tmp_path):
        pass
    os.utime(tmp_path / "owners" / "0001", (time.time() - 61,) * 2)
    with Lease(tmp_path) as lease:
        assert lease.took_over


def test_renewal_holds_longer_than_a_lease(tmp_path: Path) -> None:
    process = holder(tmp_path, seconds=2, renew=0.1)
    try:
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            with pytest.raises(Busy), Lease(tmp_path, 2):
                pass
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()


def test_a_suspended_owner_writes_no_more(tmp_path: Path) -> None:
    """It wakes after its folder was taken: not a byte of it reaches the record."""
    code = (
        "record = Path(sys.argv[1], 'record.jsonl').open('a', buffering=1)\n"
        "with Lease(sys.argv[1], 0.5, 0.1) as lease:\n"
        "    for number in range(10**6):\n"
        "        lease.check()\n"
        "        record.write(f'{number}\\n')\n"
        "        time.sleep(0.001)\n"
    )
    record = tmp_path / "record.jsonl"
    process = start_python(code, tmp_path)
    try:
        until(lambda: record.exists() and len(record.read_text()) > 100)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.7)
        with Lease(tmp_path, 0.5, 0.1) as lease:
            assert lease.took_over
            replace_by_copy(record)
            text = record.read_text()
            process.send_signal(signal.SIGCONT)
            assert process.wait(20) == 1  # LeaseLost
            lease.check()
        assert record.read_text() == text
    finally:
        process.kill()
        process.wait()
    assert owners(tmp_path)[1:] == ["released"]


def test_check_says_by_whom(tmp_path: Path) -> None:
    with Lease(tmp_path, 0.2, 60) as lease:
        time.sleep(0.3)
        process = holder(tmp_path, 0.2, 0.05)
        process.kill()
        process.wait()
        for _ in range(2):
            with pytest.raises(LeaseLost, match=f"process {process.pid}"):
                lease.check()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "owners").write_text("a file in its place")
    with pytest.raises(HoldfastError, match="cannot be written"), Lease(tmp_path):
        pass
