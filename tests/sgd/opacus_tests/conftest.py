"""Without Opacus these tests are not collected; with it, they run it as it is."""

from importlib.util import find_spec

collect_ignore_glob: list[str] = []

if find_spec("opacus") is None:
    collect_ignore_glob.append("*.py")
else:
    import torch

    torch.set_num_threads(1)
