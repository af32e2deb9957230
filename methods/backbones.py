"""tmp"""


def load_backbone(name):
    raise NotImplementedError
