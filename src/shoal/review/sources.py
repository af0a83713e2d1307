"""A review from what there is: parameters, a plan, or a training."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import shoal
from shoal.digits import exactly, rounded_up
from shoal.durable_file import opened
from shoal.errors import FormatError, MissingExtraError, ParameterError, ShoalError
from shoal.planning.plan import PlannedRounds
from shoal.review.review_document import Review
from shoal.review.round_review import RoundReview
from shoal.review.training_review import training_review
from shoal.sgd.guarantees import Guarantee
from shoal.strict_json import short_reason

__all__ = ["of_parameters", "of_plan", "of_training"]

_MOST_JSON = 1 << 20
_ZIP = b"PK\x03\x04"


def of_parameters(
    kind: dict[str, Any], *, title: str, reports: float, local_delta: float = 0.0, delta: float = 1e-6, fakes: float = 0
) -> Review:
    """Return the review of a round that parameters describe.

    Parameters
    ----------
    kind : dict
        What each person runs, as an argument of `shoal.amplify`: a randomizer or local_epsilon.
    title : str
        What is collected.
    reports : int or float
        How many are shuffled together.
    local_delta : float
        δ₀.
    delta : float
        δ of the guarantee.
    fakes : int or float
        How many of the reports may be made up by whoever looks, or known to them.
    """

    def make(count: float) -> shoal.PrivacyCurve:
        return shoal.amplify(**kind, local_delta=local_delta, reports=count)

    first = make(reports)  # refuses what makes no sense, by the names of the parameters
    return RoundReview(title, make, first.reports, delta, fakes, kind.get("randomizer")).review()  # type: ignore[arg-type]


def of_plan(text: str, name: str, *, title: str, fakes: float = 0) -> Review:
    """Return the review of the best choice of a plan: of all its rounds together first, and of one round second.

    Parameters
    ----------
    text : str
        The JSON that `shoal plan` writes.
    name : str
        What to call it in an error.
    title : str
        What is collected.
    fakes : int or float
        How many of the reports may be made up by whoever looks, or known to them.
    """
    plan = PlannedRounds.from_json(text, name)
    target = f"ε = {exactly(plan.epsilon)} at δ = {exactly(plan.delta)}"
    declared = f"The target of the plan is {target}."
    if plan.rounds > 1:
        declared = f"The target of the plan is {target} for all {plan.rounds:,} rounds together, fixed in advance."
    if plan.spent:
        declared += (
            f" It includes earlier rounds, of which a ledger had counted ε = {rounded_up(plan.spent)}. This page "
            "is about the rounds of the plan alone; `shoal review --ledger` is about all rounds."
        )
    return RoundReview(
        title,
        plan.curve,
        plan.reports,
        plan.delta,
        fakes,  # type: ignore[arg-type]
        plan.mechanism,
        declared=(declared,),
        rounds=plan.rounds,
    ).review()


def of_training(path: Path, *, title: str) -> Review:
    """Return the review of a training: a checkpoint of `make_private`, or a model of `shoal train`.

    Parameters
    ----------
    path : Path
        The file. Its numbers are not believed: the guarantee is computed again from what was done.
    title : str
        What was trained.
    """
    with opened(path) as file:
        model = file.read(len(_ZIP)) == _ZIP
    try:
        result = _of_model(path) if model else _of_checkpoint(path)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, ShoalError):
            raise
        raise FormatError(f"{path} is no training that shoal has written: {short_reason(error)}") from None
    return training_review(result, title=title)


def _of_checkpoint(path: Path) -> Guarantee:
    try:
        from shoal.sgd.torch.checkpoint import read_checkpoint
    except ImportError:
        raise MissingExtraError('a training is read with PyTorch: pip install "shoal-dp[torch]"') from None
    from shoal.sgd.account import Account

    result = Account.from_dict(read_checkpoint(path)["account"]).guarantee()
    if result is None:
        raise ParameterError(f"{path} has not begun its first epoch, and there is nothing to review")
    return result


def _of_model(path: Path) -> Guarantee:
    from dataclasses import replace

    from shoal.sgd.guarantees import guarantee
    from shoal.sgd.run import Run

    with zipfile.ZipFile(path) as archive:
        if archive.getinfo("guarantee.npy").file_size > _MOST_JSON:
            raise FormatError(f"{path} is no model of `shoal train`: its guarantee is too long")
    with np.load(path, allow_pickle=False) as arrays:
        content = json.loads(str(arrays["guarantee"]))
    if content["private"] is not True:
        raise ParameterError(
            f"{path} was trained with the coins of a seed, which anybody can toss again; there is nothing to review"
        )
    result = guarantee(Run.from_dict(content["run"]), delta=content["delta"])
    # Models of 0.2.0 do not say where their labels are from: then it may be the data.
    from_data = content.get("labels_from_data") is not False
    return replace(result, at_most=content["at_most"] is True, labels_from_data=from_data)
