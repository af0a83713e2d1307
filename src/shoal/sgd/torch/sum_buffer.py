"""Memory for the sum of a batch's clipped gradients."""

import torch
from torch import nn

__all__ = ["SumBuffer"]


class SumBuffer:
    """Memory for one number for each parameter, in one piece (`flat`) and parameter by parameter (`parts`).

    Parameters
    ----------
    trained : list of nn.Parameter
        The parameters, of one type and on one device.
    """

    def __init__(self, trained: list[nn.Parameter]) -> None:
        sizes = [parameter.numel() for parameter in trained]
        self.flat = torch.zeros(sum(sizes), dtype=trained[0].dtype, device=trained[0].device)
        pieces = torch.split(self.flat, sizes)
        self.parts = [piece.view_as(parameter) for piece, parameter in zip(pieces, trained, strict=True)]
