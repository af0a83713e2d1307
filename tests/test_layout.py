"""Tests sit where the code sits, or this file says where."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_SOURCE = _ROOT / "src" / "shoal"
_MODULES = sorted(
    str(path.relative_to(_SOURCE).with_suffix(""))
    for path in _SOURCE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)
_ELSEWHERE = {
    "amplification/clones": "tests/test_containment.py",
    "amplification/decomposition_bound": "tests/amplification/test_decomposition.py",
    "amplification/gaussian_clones": "tests/sgd/test_gaussian_clones.py",
    "amplification/koskela": "tests/amplification/test_catalogue.py",
    "charts/svg_writer": "tests/charts/test_svg_chart.py",
    "bound_table": "tests/charts/test_shown.py",
    "charts/epsilon_chart": "tests/charts/test_shown.py",
    "cli/choice": "tests/cli/test_reports.py",
    "cli/collect_output": "tests/cli/test_collect.py",
    "cli/help_text": "tests/cli/test_cli.py",
    "cli/ledger_file": "tests/cli/test_rounds.py",
    "cli/option_names": "tests/cli/test_cli.py",
    "cli/options": "tests/cli/test_numbers.py",
    "cli/overview": "tests/cli/test_cli.py",
    "cli/pictures": "tests/cli/test_cli.py",
    "cli/report_*": "tests/cli/test_reports.py",
    "cli/sampling": "tests/cli/test_train.py",
    "cli/text_file": "tests/cli/test_rounds.py",
    "cli/train_output": "tests/cli/test_train.py",
    "cli/verbs/aggregate": "tests/cli/test_reports.py",
    "cli/verbs/amplify": "tests/cli/test_cli.py",
    "cli/verbs/analyst": "tests/cli/test_collect.py",
    "cli/verbs/audit": "tests/test_auditing.py",
    "cli/verbs/calibrate": "tests/cli/test_cli.py",
    "cli/verbs/compare": "tests/cli/test_cli.py",
    "cli/verbs/compose": "tests/cli/test_rounds.py",
    "cli/verbs/doctor": "tests/cli/test_collect.py",
    "cli/verbs/estimate": "tests/cli/test_reports.py",
    "cli/verbs/explain": "tests/cli/test_explain.py",
    "cli/verbs/figures": "tests/figures/test_draw.py",
    "cli/verbs/hitters": "tests/cli/test_hitters.py",
    "cli/verbs/analyst_next": "tests/cli/test_hunt_verbs.py",
    "cli/verbs/helper": "tests/cli/test_collect.py",
    "cli/verbs/keygen": "tests/cli/test_collect.py",
    "cli/verbs/ledger": "tests/cli/test_rounds.py",
    "cli/verbs/plan": "tests/cli/test_reports.py",
    "cli/verbs/quantiles": "tests/cli/test_quantiles.py",
    "cli/verbs/randomize": "tests/cli/test_reports.py",
    "cli/verbs/report": "tests/cli/test_collect.py",
    "cli/verbs/review": "tests/review/test_reviews.py",
    "cli/verbs/sgd": "tests/cli/test_train.py",
    "cli/verbs/shuffle": "tests/cli/test_reports.py",
    "cli/verbs/shuffler": "tests/cli/test_collect.py",
    "cli/verbs/shuffler_salvage": "tests/cli/test_salvage.py",
    "cli/verbs/simulate": "tests/cli/test_reports.py",
    "cli/verbs/sum": "tests/cli/test_sum.py",
    "cli/verbs/task": "tests/cli/test_collect.py",
    "cli/verbs/task_hunt": "tests/cli/test_hunt_verbs.py",
    "cli/verbs/train": "tests/cli/test_train.py",
    "cli/verbs/verify": "tests/cli/test_verify.py",
    "cli/verbs/web": "tests/web/test_application.py",
    "cli/certificates": "tests/cli/test_verify.py",
    "collect/dummy_upload": "tests/collect/test_helper.py",
    "collect/listener": "tests/collect/test_http_limits.py",
    "collect/people_needed": "tests/collect/test_dummies.py",
    "collect/problem": "tests/collect/test_requests.py",
    "collect/sqlite_connection": "tests/collect/test_damage.py",
    "collect/state_folder": "tests/collect/test_sender.py",
    "collect/task_checks": "tests/collect/test_dummies.py",
    "collect/store_error": "tests/collect/test_store.py",
    "collect/stores/*": "tests/collect/test_store.py",
    "collect/thread_connections": "tests/collect/test_store.py",
    "composition/*_accountant": "tests/composition/test_compose.py",
    "composition/central_curve": "tests/interop/test_dp_accounting.py",
    "composition/entry": "tests/composition/test_ledger.py",
    "composition/journal": "tests/composition/test_ledger.py",
    "digits": "tests/test_curve.py",
    "evaluators/*": "tests/evaluators/test_evaluators.py",
    "figures/*": "tests/figures/test_draw.py",
    "frequency/error_chart": "tests/frequency/test_plan.py",
    "frequency/fit": "tests/frequency/test_plan.py",
    "frequency/numeric_column": "tests/cli/test_sum.py",
    "frequency/planned_choice": "tests/frequency/test_plan.py",
    "frequency/quantile_plan": "tests/randomizers/test_quantile_tree.py",
    "frequency/sum_plan": "tests/randomizers/test_levels.py",
    "listed_profile": "tests/interop/test_dp_accounting.py",
    "loss_distribution": "tests/composition/test_dp_accounting.py",
    "losses/gaussian_clone_delta": "tests/sgd/test_gaussian_clones.py",
    "losses/lattice": "tests/sgd/test_gaussian_clones.py",
    "losses/moment_series": "tests/losses/test_noise_contour.py",
    "losses/normal_*": "tests/losses/test_noise_contour.py",
    "lower_limit": "tests/test_curve.py",
    "numerals": "tests/cli/test_numbers.py",
    "pairs/cover_pair": "tests/amplification/test_several_messages.py",
    "pairs/dummy_pair": "tests/amplification/test_several_messages.py",
    "pairs/integer_likelihoods": "tests/randomizers/test_matrix_randomizer.py",
    "pairs/screening": "tests/randomizers/test_matrix_randomizer.py",
    "pairs/support": "tests/pairs/test_likelihoods.py",
    "pairs/*pair": "tests/evaluators/test_evaluators.py",
    "privacy_profile": "tests/test_curve.py",
    "proofs/dummy_claim": "tests/amplification/test_several_messages.py",
    "proofs/certificate_picture": "tests/charts/test_shown.py",
    "questions/answer_chart": "tests/web/test_application.py",
    "questions/verdict": "tests/web/test_browser_proofs.py",
    "randomizers/[abcefhlprs]*": "tests/randomizers/test_mechanisms.py",
    "randomizers/covered": "tests/randomizers/test_bundled.py",
    "randomizers/dummies": "tests/randomizers/test_bundled.py",
    "randomizers/block_count": "tests/randomizers/test_intervals.py",
    "randomizers/decomposition": "tests/amplification/test_decomposition.py",
    "randomizers/estimate": "tests/randomizers/test_intervals.py",
    "randomizers/expansion": "tests/randomizers/test_intervals.py",
    "randomizers/mix_*": "tests/randomizers/test_split_and_mix.py",
    "randomizers/noise_*": "tests/amplification/test_noise.py",
    "randomizers/plain_randomizer": "tests/randomizers/test_registry.py",
    "randomizers/pooled": "tests/amplification/test_noise.py",
    "randomizers/randomizer": "tests/randomizers/test_registry.py",
    "randomizers/schema": "tests/randomizers/test_registry.py",
    "randomizers/tree_estimate": "tests/randomizers/test_quantile_tree.py",
    "rounding": "tests/test_searches.py",
    "sgd/batch_sizes": "tests/sgd/samplers/test_allocation.py",
    "sgd/noise_calibration": "tests/sgd/test_bounds.py",
    "sgd/poisson": "tests/sgd/test_bounds.py",
    "sgd/ratio_search": "tests/sgd/test_bounds.py",
    "sgd/sampler_comparison": "tests/cli/test_train.py",
    "sgd/torch/*": "tests/sgd/torch_tests/test_training.py",
    "shuffling": "tests/frequency/test_files.py",
    "sweeps": "tests/test_curve.py",
    "web/*": "tests/web/test_application.py",
}
"""Modules, as patterns, whose tests have another name, or sit elsewhere."""


def _folder(module: str) -> Path:
    """Return the folder of tests that mirrors that of a module."""
    folder = (_ROOT / "tests" / module).parent
    return folder.parent / f"{folder.name}_tests" if folder.name in ("opacus", "torch") else folder


def _at_home(module: str) -> bool:
    """Tell whether a test has the name of a module, or one in the mirrored folder imports it."""
    folder, _, stem = module.rpartition("/")
    if (_folder(module) / f"test_{stem}.py").exists():
        return True
    package = ".".join(("shoal", *folder.split("/"))).rstrip(".")
    imported = re.compile(rf"\b{package}\.{stem}\b|from {package} import [^\n]*\b{stem}\b")
    return any(imported.search(path.read_text()) for path in _folder(module).glob("*.py") if path != Path(__file__))


@pytest.mark.parametrize("module", _MODULES)
def test_the_tests_of_a_module_can_be_looked_up(module: str) -> None:
    if not _at_home(module):
        tests = [test for pattern, test in _ELSEWHERE.items() if fnmatch(module, pattern)]
        assert tests, f"write tests/…/test_{module.rpartition('/')[2]}.py, or say in _ELSEWHERE where its tests are"
        assert all((_ROOT / test).exists() for test in tests)


@pytest.mark.slow
def test_nothing_is_said_about_modules_that_are_not_there() -> None:
    away = [module for module in _MODULES if not _at_home(module)]
    assert [pattern for pattern in _ELSEWHERE if not any(fnmatch(module, pattern) for module in away)] == []
