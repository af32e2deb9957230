"""holdfast gpu-check runs small on a CPU, and says in a sentence that there is no GPU."""

from pathlib import Path

import pytest
import torch

from holdfast import HoldfastError
from holdfast.benchmarks.measure.gpu_check import TOLERANCE, main
from holdfast.files import read_json


def test_a_small_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gpu.json"
    parts = ["throughput", "steps", "waits", "run", "equality"]  # sync has tests of its own
    assert main(["--device", "cpu", "--images", "24", "--parts", *parts, "--json", str(file)]) == 0
    rows = {(row["part"], row["what"]): row for row in read_json(file)["rows"]}
    assert {part for part, _ in rows} == {"pairs", "step", *parts[2:]}
    assert all(row["value"] > 0 for row in rows.values() if row["part"] in ("pairs", "step", "run"))
    assert all(row["value"] <= TOLERANCE for row in rows.values() if row["part"] == "equality")
    rate = rows["run", "24 images"]["value"]
    assert rows["run", "7,500,000 images"]["value"] == pytest.approx(7.5e6 / rate / 60)
    assert "channels_last" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_a_sentence_says_so() -> None:
    with pytest.raises(HoldfastError, match="--device cpu"):
        main([])
