"""A pretended accelerator: it computes on the CPU, refuses mixed devices, and counts the host's waits."""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from lightning.pytorch.accelerators import Accelerator
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretended"
waits: Counter[str] = Counter()  # by operation and the line of the package that asked for it

WAITING = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "_unique2")
INDEXING = ("index", "index_put", "index_put_")  # which also take indices from the CPU
COPYING = ("copy_", "_to_copy", "set_data")
Generator = torch.Generator


class There(Tensor):
    """A tensor on the accelerator, whose numbers lie in `here`."""

    here: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, here: Tensor) -> "There":
        layout = {"strides": here.stride(), "storage_offset": here.storage_offset()}
        kind = {"dtype": here.dtype, "layout": here.layout, "requires_grad": here.requires_grad}
        place = torch.device(NAME, 0)
        there = Tensor._make_wrapper_subclass(cls, here.size(), **layout, **kind, device=place)
        there.here = here
        return there

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return dispatched(func, args, kwargs or {})

    def tolist(self) -> Any:
        count_wait("tolist")
        return self.here.tolist()

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"There({self.here})"


class Dispatch(TorchDispatchMode):
    """Sends what makes or moves tensors through `dispatched`, too."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatched(func, args, kwargs or {})


def dispatched(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operation's result, on the accelerator if its tensors are, or if it is asked for there."""
    name, kwargs = func._schema.name.removeprefix("aten::"), dict(kwargs)
    if name == "is_pinned":
        return True  # so that nothing is: PyTorch would ask the device for the memory
    tensors = [x for x in leaves((args, *kwargs.values())) if isinstance(x, Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, There)]
    if name.startswith("c10d::") and len(there) < len(tensors):
        raise RuntimeError(f"No backend type associated with device type cpu, in {name}")  # as NCCL
    result_there = isinstance(args[0], There) if name == "copy_" else bool(there)
    if kwargs.get("device") is not None:
        result_there = torch.device(kwargs["device"]).type == NAME
        kwargs["device"] = torch.device("cpu")
    elsewhere = [tensor for tensor in tensors if tensor.dim() and not isinstance(tensor, There)]
    if there and elsewhere and name not in (*INDEXING, *COPYING):
        raise RuntimeError(f"Expected all tensors to be on the same device, in {name}")
    if there:
        masks = leaves(args[1:2]) if name in INDEXING else []
        by_mask = any(isinstance(mask, Tensor) and mask.dtype == torch.bool for mask in masks)
        if name in WAITING or by_mask or (name in COPYING and not result_there):
            count_wait(name)
    # The host waits until its values are copied, unless it asks for a copy that does not wait.
    if (
        result_there
        and elsewhere
        and name in (*INDEXING, *COPYING)
        and not kwargs.get("non_blocking")
    ):
        count_wait(name)
    known = {id(tensor.here): tensor for tensor in there}
    args = mapped(lambda x: x.here if isinstance(x, There) else x, args)
    kwargs = {key: x.here if isinstance(x, There) else x for key, x in kwargs.items()}
    result = func(*args, **kwargs)
    return mapped(lambda x: known.get(id(x), placed(x)), result) if result_there else result


def leaves(values: Sequence[Any]) -> Iterator[Any]:
    """What nested lists and tuples hold; three times as fast as PyTorch's, which knows more kinds."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from leaves(value)
        else:
            yield value


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """The same nested lists and tuples, with the function's results."""
    if isinstance(value, list | tuple):
        return type(value)([mapped(function, each) for each in value])
    return function(value)


def placed(value: Any) -> Any:
    return There(value) if isinstance(value, Tensor) and not isinstance(value, There) else value


def count_wait(operation: str) -> None:
    frames = [f for f in traceback.extract_stack() if "/tests/" not in f.filename]
    own = [
        f for f in frames if "site-packages" not in f.filename and "/lib/python" not in f.filename
    ]
    place = f"{own[-1].filename}:{own[-1].lineno} {own[-1].line}" if own else "torch"
    waits[f"{operation} {place}"] += 1


class ThereGenerator(Generator):
    """A generator that says it is on the accelerator."""

    def __new__(cls, device: Any = "cpu") -> Any:
        there = torch.device(device).type == NAME
        return Generator.__new__(cls if there else Generator, "cpu" if there else device)  # type: ignore[call-arg]

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device(NAME, 0)


class Pretended(Accelerator):
    """It, for a Trainer."""

    def setup_device(self, device: torch.device) -> None: ...
    def teardown(self) -> None: ...
    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return {}

    @staticmethod
    def parse_devices(devices: Any) -> int:
        return 1

    @staticmethod
    def get_parallel_devices(devices: int) -> list[torch.device]:
        return [torch.device(NAME, 0)]

    @staticmethod
    def auto_device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def name() -> str:
        return NAME


def registered() -> torch.library.Library:
    """PyTorch knows the device, and how `.to` copies to it; once for a process."""
    _setup_privateuseone_for_python_backend(NAME)
    getattr(torch, NAME).get_amp_supported_dtype = lambda: [torch.bfloat16]
    library = torch.library.Library("aten", "IMPL")

    def copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
        ours, theirs = (x.here if isinstance(x, There) else x for x in (source, target))
        theirs.copy_(ours)
        return target

    def empty(size: Any, dtype: Any = None, *_: Any, **__: Any) -> There:
        return There(torch.empty(size, dtype=dtype))

    def empty_strided(size: Any, stride: Any, dtype: Any = None, *_: Any, **__: Any) -> There:
        return There(torch.empty_strided(size, stride, dtype=dtype))

    library.impl("empty.memory_format", empty, "PrivateUse1")
    library.impl("empty_strided", empty_strided, "PrivateUse1")
    library.impl("_copy_from", copy_from, "PrivateUse1")
    return library


_library: list[torch.library.Library] = []


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The device, within a test; `waits` is empty at first."""
    if not _library:
        _library.append(registered())
    monkeypatch.setattr(torch, "Generator", ThereGenerator)
    swap = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # as with CUDA, parameters stay
    waits.clear()
    with Dispatch():
        yield torch.device(NAME, 0)
    torch.__future__.set_swap_module_params_on_conversion(swap)
