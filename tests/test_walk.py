"""A newcomer can follow `amplify(...).epsilon(...)` through a few files, downward."""

import inspect
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import shoal

_ROOT = Path(__file__).parents[1]
_SOURCE = _ROOT / "src" / "shoal"
_MOST_FILES = 8
_MOST_WITH_A_RANDOMIZER = 14
_MOST_WITH_ROUNDS = 15
_MOST_OF_A_PLAN = 25
"""Besides the files of the mechanisms that it compares."""
_MOST_OF_A_TRAINING, _MOST_WITH_ANOTHER_EPSILON = 17, 31


def _ask_default() -> None:
    shoal.amplify(local_epsilon=1, reports=10_000).epsilon(1e-6)


_RESPONSE = shoal.RandomizedResponse(categories=11, local_epsilon=1)


def _ask_response() -> None:
    shoal.amplify(_RESPONSE, reports=10_000).epsilon(1e-6)


def walked(ask: Callable[[], object]) -> tuple[list[str], set[tuple[str, str]]]:
    """Return the files whose functions run, in the order in which they are entered, and who calls whom."""
    files: list[str] = []
    calls: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(_SOURCE):
            return
        name = str(path.relative_to(_SOURCE))
        if name not in files:
            files.append(name)
        caller = frame.f_back
        while caller is not None and not Path(caller.f_code.co_filename).is_relative_to(_SOURCE):
            caller = caller.f_back
        if caller is not None:
            calls.add((str(Path(caller.f_code.co_filename).relative_to(_SOURCE)), name))

    ask()  # loads the modules
    sys.setprofile(note)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return files, calls


def _layer(path: str) -> int:
    """Return the layer of a file: 0 is the highest."""
    layers = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    name = "shoal." + path.removesuffix(".py").split("/")[0]
    (layer,) = (
        index for index, line in enumerate(layers) if name in line.replace(":", "|").replace(" ", "").split("|")
    )
    return layer


def test_amplify_is_a_short_walk() -> None:
    files, _ = walked(_ask_default)
    assert files[0] == "amplification/amplify.py"
    above = [name for name in files if _layer(name) <= _layer("curve.py") or name == "checks.py"]
    assert above == ["amplification/amplify.py", "checks.py", "amplification/swap_chains.py", "curve.py"]
    assert len(files) <= _MOST_FILES, files


def test_a_randomizer_adds_its_own_files_and_one_sum() -> None:
    files, _ = walked(_ask_response)
    numerics = [name for name in files if name.startswith("numerics/")]
    assert sorted(numerics) == ["numerics/contour.py", "numerics/divergence.py", "numerics/summand.py"]
    assert len(files) <= _MOST_WITH_A_RANDOMIZER, files


def test_a_year_of_rounds_adds_the_losses_of_a_round_and_their_sum() -> None:
    years = [shoal.amplify(local_epsilon=1, reports=reports).repeated(365) for reports in (10_001, 10_000)]
    # The second year is another one, so that nothing of it is remembered.
    files, _ = walked(lambda: years.pop(0).epsilon(1e-6))
    assert files[0] == "curve.py"
    assert {"numerics/profile_grid.py", "numerics/convolution.py", "numerics/lattice.py"} < set(files)
    assert len(files) <= _MOST_WITH_ROUNDS, files


@pytest.mark.slow
def test_a_plan_compares_mechanisms_in_a_few_files() -> None:
    plans: list[dict[str, Any]] = [
        {"categories": 11, "reports": 1_001, "epsilon": 0.9},
        {"categories": 10, "reports": 1_000, "epsilon": 1},
    ]
    made: list[shoal.Plan] = []
    files, _ = walked(lambda: made.append(shoal.plan(**plans.pop())))
    compared = {inspect.getsourcefile(type(choice.mechanism)) for plan in made for choice in plan.choices}
    assert files[0] == "planning/plan.py"
    others = [name for name in files if str(_SOURCE / name) not in compared]
    assert len(others) <= _MOST_OF_A_PLAN, others


@pytest.mark.slow
def test_a_private_training_is_a_short_walk_and_its_noise_is_chosen_once() -> None:
    torch = pytest.importorskip("torch")
    from shoal.sgd.torch import make_private

    points = torch.linspace(-1, 1, 400).reshape(400, 1)
    data = torch.utils.data.TensorDataset(points, (points[:, 0] > 0).long())

    def train(epsilon: float) -> None:
        model = torch.nn.Linear(1, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        make_private(model, optimizer, data, loss=torch.nn.CrossEntropyLoss(), batch_size=50, epsilon=epsilon, epochs=2)

    files, _ = walked(lambda: train(1.0))
    assert files[0] == "sgd/torch/make_private.py"
    assert len(files) <= _MOST_OF_A_TRAINING, files
    # Another ε is another noise, which the accountant of the run has to find.
    others = [1.2, 1.1]
    files, _ = walked(lambda: train(others.pop()))
    assert len(files) <= _MOST_WITH_ANOTHER_EPSILON, files


def test_the_walk_goes_downward() -> None:
    """No function calls up into a higher layer, but for what it was handed by it."""
    calls = walked(_ask_default)[1] | walked(_ask_response)[1]
    handed = {  # functions to apply and to search, and the randomizer
        ("amplification/setting.py", "mechanisms/categorical.py"),
        ("amplification/setting.py", "mechanisms/randomized_response.py"),
        ("pairs/randomizer.py", "mechanisms/randomized_response.py"),
        ("checks.py", "curve.py"),
        ("curve.py", "amplification/swap_chains.py"),
        ("curve.py", "amplification/blanket.py"),
        ("searches.py", "amplification/swap_chains.py"),
        ("searches.py", "amplification/blanket.py"),
        ("searches.py", "pairs/pair.py"),
    }
    assert [call for call in sorted(calls - handed) if _layer(call[0]) > _layer(call[1])] == []


@pytest.mark.slow
def test_the_lower_limit_is_not_built_unless_it_is_asked_for() -> None:
    files, _ = walked(_ask_default)
    assert not [name for name in files if "lower" in name or "likelihood" in name or "support" in name]
