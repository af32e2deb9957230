"""Checks of steps, predictions, resets and checkpoints."""

import torch

from .common import (
    Make,
    Net,
    demand,
    demand_alike,
    demand_finite,
    differing,
    image_batches,
    io_copy,
    promises,
    remembered,
    same,
    tensors,
    tested,
)

ONLY_GENERATOR = (
    "Draw random numbers from self.generator only, work with what `adapt` is given, and leave the "
    "backbone that was passed untouched"
)
STATE = (
    "Return everything that changes between steps from fresh_state and keep it in self.state, or register "
    "it as a parameter or buffer"
)


@promises("the same steps give the same bits, in a plain loop and in a Trainer")
def deterministic(make: Make, net: Net) -> None:
    backbone, images = net(), image_batches(6)
    original = {key: value.clone() for key, value in backbone.state_dict().items()}
    bare, trained = make(backbone), make(backbone)
    bare.fit(images[:1])
    images[-1] = images[-1][:4]
    for step, (batch, found) in enumerate(zip(images, tested(trained, images), strict=True)):
        torch.rand(1)  # others may use PyTorch's random numbers, too
        logits = bare.adapt(batch)
        demand(
            logits.shape == (len(batch), 5) and not logits.requires_grad,
            f"adapt returned {tuple(logits.shape)} (with gradient: {logits.requires_grad}) for "
            f"{len(batch)} images of 5 classes",
            "Return one row of detached logits for each image",
        )
        demand_finite([logits], f"at step {step}")
        demand(
            torch.equal(logits, found),
            f"step {step} of the same images has other logits in a Trainer",
            ONLY_GENERATOR,
        )
    demand_alike(bare, trained, "after the same steps twice", ONLY_GENERATOR)
    demand(
        not differing(original, dict(backbone.state_dict())),
        "the module passed as backbone has changed",
        "Change self.backbone, which is a copy",
    )


@promises("a step changes weights, and only those that a reset restores")
def changes(make: Make, net: Net) -> None:
    method = make(net())
    method.fit(image_batches(1))
    before = tensors(method)
    for images in image_batches(9):
        method.adapt(images)
    changed = {name for name in differing(before, tensors(method)) if "num_batches" not in name}
    state = {**dict(method.named_parameters()), **dict(method.named_buffers())}
    restored = {id(tensor) for tensor in method.restorable_tensors()}
    others = sorted(name for name in changed if id(state[name]) not in restored)
    demand(
        not others,
        f"a step changes {', '.join(others[:3])}, which a reset does not restore",
        "Yield these tensors from restorable_tensors, or leave them as they are",
    )
    demand(
        bool(changed) or method.optimizer is None,
        "nine steps on six images have changed no weight, so the other checks show little",
        "Pass settings under which a step updates the model, such as --set threshold=2",
    )
    counts = method.step_count, method.steps_since_reset
    demand(
        method.step_count == 9,
        f"nine steps have left step_count, steps_since_reset = {counts}",
        "Leave adapt, which counts, as it is and override update",
    )


@promises("predict changes nothing")
def predict_changes_nothing(make: Make, net: Net) -> None:
    method = make(net())
    method.fit(image_batches(1))
    for images in image_batches(3):
        before, state = tensors(method), io_copy(method.get_extra_state())
        method.predict(images)
        names = sorted(differing(before, tensors(method)))
        demand(
            not names and same(state, method.get_extra_state()),
            f"predict changes {', '.join(names[:3]) or 'the state'}",
            "Move what learns or remembers from forward and corrected to update",
        )
        method.adapt(images)


@promises("predict returns the logits that adapt returns next")
def predict_foretells(make: Make, net: Net) -> None:
    method = make(net())
    method.fit(image_batches(1))
    for images in image_batches(3):
        demand(
            torch.equal(method.predict(images), method.adapt(images)),
            "adapt returns other logits than predict did just before",
            "Return the logits from before the update, and put corrections of them into corrected",
        )


@promises("a reset is a fresh start")
def reset(make: Make, net: Net) -> None:
    backbone, first = net(), image_batches(1)
    method, fresh = make(backbone), make(backbone)
    method.fit(first)
    fresh.fit(first)
    for images in image_batches(6):
        method.adapt(images)
    method.reset()
    names = sorted(differing(tensors(method), tensors(fresh)))
    # Only a recovery sees later, at the first step, that there was a reset.
    ours, theirs = remembered(method), remembered(fresh)
    names += [key for key in ours if key != "recovery" and not same(ours[key], theirs[key])]
    demand(
        not names, f"a reset leaves {', '.join(names[:3])} other than a new method has it", STATE
    )
    for step, images in enumerate(image_batches(3)):
        demand(
            torch.equal(method.adapt(images), fresh.adapt(images)),
            f"step {step} after a reset is not that of a new method",
            STATE,
        )
    demand(
        not differing(tensors(method), tensors(fresh)),
        "the weights after a reset and three steps are not those of a new method",
        STATE,
    )


@promises("a checkpoint of any step goes on to the same bits")
def resume(make: Make, net: Net) -> None:
    backbone, images = net(), image_batches(12)
    method, other = make(backbone), make(backbone)
    begins = 7, 6, 5, 4  # each phase of a memory that learns at every fourth image or step
    saved, logits = {}, []
    for step, batch in enumerate(images):
        if step in begins:
            saved[step] = io_copy(method.state_dict())
        logits.append(method.adapt(batch))
    torch.manual_seed(99)
    other.seed = 99
    other.adapt(torch.rand(2, 3, 8, 8))
    for begin in begins:
        other.load_state_dict(saved[begin])
        for step in range(begin, 12 if begin == 4 else begin + 4):
            demand(
                torch.equal(other.adapt(images[step]), logits[step]),
                f"resumed from a checkpoint of step {begin}, step {step} has other logits",
                STATE,
            )
    demand_alike(method, other, "after a resume", STATE)
