"""The base class of methods with a mean teacher."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ...networks import copied
from ..base import TTAMethod


class TeacherMethod(TTAMethod):
    """A method whose predictions are a teacher's, the moving average of the student that learns.

    The student is the backbone; the teacher is a copy, and its trained parameters follow by
    theta' <- (1 - rate) theta' + rate theta. At rate 0, the "intransigent" teacher, they stay the source's.
    """

    teacher: nn.Module
    teacher_rate: float

    def prepare(self) -> None:
        super().prepare()
        self.make_teacher()

    def make_teacher(self) -> None:
        """Create the teacher as a copy of the prepared student."""
        self.teacher = copied(self.backbone)

    @property
    def predictor(self) -> nn.Module:
        return self.teacher

    def pairs(self) -> Iterator[tuple[nn.Parameter, nn.Parameter]]:
        """Each trained parameter of the student, and the teacher's."""
        both = zip(self.backbone.parameters(), self.teacher.parameters(), strict=True)
        return ((student, teacher) for student, teacher in both if student.requires_grad)

    @torch.no_grad()
    def follow(self, rate: float | Tensor | None = None) -> None:
        """Move the teacher towards the student by a scalar rate in [0,1]; default: `teacher_rate`."""
        rate = self.teacher_rate if rate is None else rate
        for student, teacher in self.pairs():
            teacher.mul_(1 - rate).add_(rate * student)
        torch.clear_autocast_cache()

    def restorable_tensors(self) -> Iterator[Tensor]:
        yield from super().restorable_tensors()
        yield from (teacher for _, teacher in self.pairs())
        yield from self.teacher.buffers()
