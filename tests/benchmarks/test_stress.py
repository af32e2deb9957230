"""`holdfast stress`: which learning rates collapse a method, on which streams."""

from small_suites import corrupted_digits, write_suite

from holdfast.benchmarks.cli import main

FAST, SLOW = 30.0, 0.001  # Tent's learning rates; the first makes it collapse


def test_the_rates_that_collapse(tmp_path, capsys):
    """Of two rates one collapses; what has run is not repeated; a method without a rate has one row."""
    streams = {
        "fog": corrupted_digits("fog", severities=[1], each=768, batch_size=16, table="cifar")
    }
    path = write_suite(tmp_path, ["Source"], streams, seeds=[0, 1], tune={"rates": [SLOW, FAST]})
    words = ["--streams", str(path), "--backbones", "digits", "--out", str(tmp_path / "out")]
    assert main(["stress", "Tent", *words]) == 0
    printed = capsys.readouterr().out
    slow, fast = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()[-2:]
    )
    assert slow[:3] + slow[4:] == ["digits", "fog", "0.001", "0 of 2", "0 [0, 84]"]
    assert fast[:3] + fast[4:] == ["digits", "fog", "30", "2 of 2", "100 [16, 100]"]
    assert float(slow[3]) > float(fast[3])
    assert "[6/6]" in printed
    assert (tmp_path / "out" / "Tent.md").read_text().strip() in printed
    assert main(["stress", "Tent", *words]) == 0
    assert "begins" not in capsys.readouterr().out
    assert main(["stress", "BNAdapt", *words]) == 0
    row = [cell.strip() for cell in capsys.readouterr().out.splitlines()[-1].split("|")[1:-1]]
    assert row[2] == "-"
    assert row[4] == "0 of 2"


def test_what_cannot_be_stressed_is_told(tmp_path, capsys):
    streams = {"fog": corrupted_digits("fog", each=64, batch_size=16, table="cifar")}
    path = write_suite(tmp_path, ["Source"], streams, seeds=[0])
    words = ["--streams", str(path), "--backbones", "digits", "--budget", "1"]
    assert main(["stress", "Tent", *words]) == 2
    assert "too few to tell whether it has collapsed" in capsys.readouterr().err
