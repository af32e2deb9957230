"""A service that classifies and adapts: POST /classify with a NumPy file, uint8 [B,H,W,3]; GET /health.

Run it with `uvicorn service:app`, in one process.
"""

from io import BytesIO
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import Body, FastAPI, HTTPException

from holdfast import HoldfastError
from holdfast.callbacks import AccuracyReset, RiskMonitor, SoftmaxScore, Watch
from holdfast.datamodules import Digits
from holdfast.methods import Tent

app = FastAPI()
score, risk = SoftmaxScore(), RiskMonitor(source=Digits("calibration"), images=300, epsilon=0.05)
watch = Watch(
    Tent("digits"), [score], AccuracyReset("SoftmaxScore"), [risk]
)  # or Tent(your_network)


@app.post("/classify")
def classify(body: Annotated[bytes, Body(media_type="application/octet-stream")]) -> dict[str, Any]:
    """The classes of the images. FastAPI runs it in one of its threads; `step` lets one in at a time."""
    try:
        images = torch.from_numpy(np.load(BytesIO(body), allow_pickle=False))
        logits = watch.step(images.permute(0, 3, 1, 2).contiguous().float() / 255)
    except (HoldfastError, RuntimeError, TypeError, ValueError) as error:
        raise HTTPException(422, str(error)) from error
    return {"classes": logits.argmax(1).tolist()}


@app.get("/health")
def health() -> dict[str, Any]:
    """What a dashboard shows."""
    return {"estimated accuracy": score.latest, "alarm": risk.alarm, "reason": risk.reason}
