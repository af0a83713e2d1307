"""Reviews of rounds, ledgers and trainings: their numbers are those of the library, and they verify."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import shoal
from shoal import assumptions
from shoal.assumptions import COLLUDE, Topic
from shoal.attack import attack_success
from shoal.cli import main
from shoal.digits import rounded_down, rounded_up
from shoal.errors import FormatError, ParameterError, UnreachableError
from shoal.review import Review
from shoal.review.notice import notice
from shoal.review.parts import percent
from shoal.review.registry_entry import registry_entry, registry_text
from shoal.review.review_document import rendered
from shoal.review.round_review import RoundReview
from shoal.review.sources import ledger_review, of_parameters, of_plan, training_review
from shoal.review.statement import Table
from shoal.sgd.guarantees import guarantee
from shoal.sgd.run import Run
from tests.review.registry_schema import wrong_fields

pytestmark = pytest.mark.slow

_COLOURS = {"randomizer": shoal.RandomizedResponse(categories=5, local_epsilon=2)}


def _texts(review: Review) -> str:
    return json.dumps(review.to_dict(), ensure_ascii=False)


def test_numbers_of_a_round_are_those_of_the_library() -> None:
    review = of_parameters(_COLOURS, title="colours", reports=20_000, malicious=100)
    mechanism = _COLOURS["randomizer"]
    curve = shoal.amplify(mechanism, reports=19_900)
    text = _texts(review)
    for number in (
        rounded_up(curve.epsilon(1e-6)),
        rounded_up(curve.repeated(365).epsilon(1e-6)),
        rounded_up(shoal.amplify(mechanism, reports=1_990).epsilon(1e-6)),
        rounded_up(shoal.amplify(mechanism, reports=19_900 - 1_990).epsilon(1e-6)),
        percent(attack_success(curve, 0.01)),
        percent((mechanism.rare_variance / 20_000) ** 0.5),
        "ε₀ = 2",
        "at most 100 of them",
    ):
        assert number in text, number
    assert review.objection() == ""


_COVERS = shoal.Covered(categories=5, slots=1, fill=0.034)
_DUMMIES = shoal.Dummies(categories=5, epsilon=0.5, limit=50)


@pytest.mark.parametrize("mechanism", [_COVERS, _DUMMIES], ids=["covers", "dummies"])
def test_nothing_remains_of_covers_and_dummies_under_collusion(mechanism: shoal.Covered | shoal.Dummies) -> None:
    """No sentence says that people randomize, or that an ε₀ holds: there is none."""
    review = of_parameters({"randomizer": mechanism}, title="colours", reports=20_000)
    text, told = _texts(review), notice(review)
    entry = registry_entry(review)
    assert "If shuffler and analyst work together, nothing remains: they see what each person said." in text
    assert "if they are not permuted, or something tells who sent which, nothing remains" in text
    assert "ε₀ =" not in text and "randomizer alone" not in text and "only nothing" not in text
    assert "work together, nothing of this protects what you answer" in told
    assert "Your answer is changed at random" not in told and "only the random change" not in told
    assert "your device" not in told
    model = entry["deployment"]["deployment_model"]
    assert "nothing would remain" in model["actors"] and "People randomize" not in json.dumps(model)
    assert wrong_fields(entry) == [] and review.objection() == ""


@pytest.mark.exhaustive  # the certificate of both takes 20 seconds
@pytest.mark.slow
def test_a_ledger_says_that_nothing_remains_of_covers_and_dummies() -> None:
    ledger = shoal.Ledger()
    for mechanism in (_COVERS, shoal.Dummies(categories=5, epsilon=0.5, limit=60)):
        ledger.record(shoal.amplify(mechanism, reports=20_000), label=mechanism.name)
    review = ledger_review(ledger, title="two rounds", delta=1e-5)
    text, told = _texts(review), notice(review)
    assert "nothing remains of rounds with covers or dummies: they see what each person said" in text
    assert "only nothing" not in text and "if it fails in all rounds, nothing remains" in text
    assert text.count("rounds that are chosen by what earlier ones showed") == 1
    assert "work together, nothing of this protects what you answer" in told


def test_dummies_need_nobody_else_and_covers_do() -> None:
    hidden, covered = (
        _texts(of_parameters({"randomizer": each}, title="colours", reports=20_000, malicious=5))
        for each in (_DUMMIES, _COVERS)
    )
    assert "ε is the same for any number of people" in hidden and "reports that hide each other" not in hidden
    assert "Each person sends what is true. Whoever adds dummies runs Dummies(" in hidden
    assert "`shoal plan --rounds` plans them together" in hidden  # seven rounds have no ε at this δ
    less = rounded_up(shoal.amplify(_COVERS, reports=19_995 - 2_000).epsilon(1e-6))
    assert f"whoever does not is not to be counted; if 2,000 more are made up or known, ε = {less} " in covered
    assert "ε is the same for any number" not in covered


def test_a_round_without_a_guarantee_is_not_reviewed() -> None:
    with pytest.raises(UnreachableError, match=r"10 reports that hide each other have no guarantee at delta=1e-06"):
        of_parameters({"randomizer": _COVERS}, title="colours", reports=20_000, malicious=19_990)


def test_no_share_of_more_than_all_is_told_from_zero() -> None:
    review = of_parameters({"randomizer": _DUMMIES}, title="colours", reports=3)
    assert "No share can be told from zero." in _texts(review)


def test_both_numbers_are_always_there() -> None:
    for review in (
        of_parameters({"local_epsilon": 1.5}, title="any", reports=1000),
        of_parameters({"randomizer": shoal.Gaussian(sigma=2)}, title="noise", reports=1000),
        of_parameters({"local_epsilon": 1}, title="δ₀", reports=1000, local_delta=1e-6, delta=1e-5),
    ):
        first = review.to_dict()["sections"][0]["items"]
        assert any("Against whoever sees the shuffled reports" in item["text"] for item in first)
        assert any("Against the shuffler" in item["text"] for item in first)


def test_a_ledger_has_all_its_rounds_and_what_is_left() -> None:
    ledger = shoal.Ledger()
    curve = shoal.amplify(local_epsilon=1, reports=10_000)
    with ledger.budget(curve, epsilon=1, delta=1e-6, label="<i>monday</i>"):
        pass
    ledger.record(curve, rounds=4, label="later")
    review = ledger_review(ledger, title="telemetry", delta=1e-6)
    assert review.objection() == ""
    assert rounded_up(ledger.spent(1e-6)) in _texts(review)
    assert "<i>monday" not in review.to_html()
    # This ledger is for rounds chosen adaptively, which count as more than they cost.
    assert ledger.limit is not None and not ledger.limit.planned
    counted = ledger.counted
    assert counted is not None and counted > ledger.spent(1e-6)
    assert f"count as {rounded_up(counted)} against it" in _texts(review)
    assert f"{rounded_down(1 - counted)} of it is left" in _texts(review)
    with pytest.raises(ParameterError, match="empty"):
        ledger_review(shoal.Ledger(), title="nothing", delta=1e-6)


def test_a_training_says_what_other_samplers_had() -> None:
    run = Run(examples=60_160, batch_size=256, noise_multiplier=2, sampling="allocation")
    result = guarantee(run, delta=1e-6)
    review = training_review(result, title="a model")
    assert review.objection() == ""
    assert rounded_up(result.epsilon) in _texts(review)
    assert "permutation" in _texts(review)
    assert "We train a model with data" in notice(review, training=True)
    assert registry_entry(review, training=True)["deployment"]["deployment_model"]["model_name"] == "Central"


@pytest.mark.parametrize(
    ("adjacency", "examples", "words"),
    [
        ("replace", 6_400, ("been different", "replaced by another", "which of two examples")),
        ("zero-out", 6_400, ("place been empty", "slots empty", "its slot is empty")),
        ("add-remove", 0, ("one more been there", "added or removed", "or that it is not")),
    ],
)
def test_a_training_says_only_of_its_own_neighbours_what_holds_for_them(
    adjacency: str, examples: int, words: tuple[str, str, str]
) -> None:
    # ε for an example that is left out may be half of what it is for one that is replaced.
    steps = None if examples else 100
    run = Run(
        examples=examples, batch_size=64, noise_multiplier=2, sampling="allocation", adjacency=adjacency,
        public_steps=steps,
    )  # fmt: skip
    review = training_review(guarantee(run, delta=1e-6), title="a model")
    assert review.objection() == ""
    entry = registry_entry(review, training=True)
    for word, text in zip(
        words,
        (notice(review, training=True), entry["deployment"]["privacy_loss"]["privacy_unit"], _texts(review)),
        strict=True,
    ):
        assert word in text
    assert ("been different" in notice(review, training=True)) == (adjacency == "replace")
    assert "if nothing but noised sums is seen" in review.to_html()


def test_a_plan_is_reviewed_from_its_file() -> None:
    plan = shoal.plan(categories=4, reports=5_000, epsilon=0.5, delta=1e-6)
    review = of_plan(json.dumps(plan.to_dict()), "plan.json", title="plan")
    assert review.objection() == ""
    for text in ("", "[]", "{}", '{"schema": {}, "reports": 1, "delta": 1, "rounds": 1}', '{"schema": 1}'):
        with pytest.raises((FormatError, ParameterError)):
            of_plan(text, "plan.json", title="plan")


def test_an_entry_for_the_registry_is_valid_and_has_only_proved_numbers() -> None:
    review = of_parameters({"local_epsilon": 1}, title="Colours of cars!", reports=20_000)
    entry = registry_entry(review)
    certificate = shoal.Certificate.from_json(review.certificates[0])
    assert wrong_fields(entry) == []
    assert entry["deployment"]["deployment_model"]["model_name"] == "Shuffle"
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"] == {
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
    }
    assert yaml.safe_load(registry_text(entry)) == json.loads(registry_text(entry)) == entry
    entry["deployment"]["deployment_model"]["model_name"] = "Shuffled"
    del entry["deployment"]["basic"]["name"]
    entry["deployment"]["basic"]["publication_date"] = "yesterday"
    entry["deployment"]["basic"]["more"] = 1
    assert len(wrong_fields(entry)) == 4
    assert wrong_fields(None)


def test_a_notice_has_no_number_but_those_of_the_certificate() -> None:
    review = of_parameters({"local_epsilon": 1}, title="any", reports=20_000)
    certificate = shoal.Certificate.from_json(review.certificates[0])
    text = notice(review)
    said = text.replace("20,000 answers", "").replace(rounded_up(certificate.epsilon), "")
    assert certificate.to_dict()["claim"]["reports"] == 20_000
    assert not set("0123456789") & set(said.replace("1e-06", ""))
    with pytest.raises(ParameterError):
        notice(Review("x", "0", (), ()))


def test_a_notice_is_in_plain_words() -> None:
    """Two lengths, each with an if; no symbol but ε and δ, and no name of a parameter."""
    for parameters in ({"local_epsilon": 1}, {"randomizer": _COVERS}, {"randomizer": _DUMMIES}):
        review = of_parameters(parameters, title="any", reports=20_000)
        text = notice(review)
        short, long = text.split("\n\nLong\n----\n")
        assert "If this is done as we describe it, it limits how much anyone" in short
        assert "It holds if all of this is so:\n- " in long
        assert not any(word in text for word in ("ε₀", "=1.0", "_", "position i", "-DP", "neighbouring"))
        assumed = shoal.Certificate.from_json(review.certificates[0]).to_dict()["assumptions"]
        assert not any(each in text for each in assumed)


def test_every_assumption_of_a_certificate_has_plain_words() -> None:
    """A notice never has to fall back on a text with symbols."""
    values = [each if isinstance(each, tuple) else (each,) for each in vars(assumptions).values()]
    every = {one for each in values for one in each if isinstance(one, assumptions.Assumption)}
    uncertified = {assumptions.OF_EACH, assumptions.KEPT_STEP}
    assert {each for each in every if each.plain is None} == uncertified


def test_reworded_assumptions_change_no_consequence() -> None:
    """What is left if an assumption fails follows from its topic, whatever its words are."""

    def rows(curve: shoal.PrivacyCurve) -> list[tuple[str, ...]]:
        review = RoundReview("any", lambda _: curve, 20_000, reasons=dict.fromkeys(Topic, "so")).review()
        (table,) = [item for item in review.sections[2].items if isinstance(item, Table)]
        return [row[2:] for row in table.rows]

    curve = shoal.amplify(_COVERS, reports=20_000)
    reworded = tuple(each if each == COLLUDE else replace(each, text="other words") for each in curve.assumptions)
    assert rows(curve) == rows(replace(curve, assumptions=reworded))
    assert len(set(rows(curve))) == 4


def test_more_fakes_than_reports_are_refused() -> None:
    with pytest.raises(ParameterError, match="malicious must be below"):
        RoundReview("x", lambda count: shoal.amplify(local_epsilon=1, reports=count), 100, malicious=100)


def test_one_person_alone_has_a_review_too() -> None:
    review = of_parameters({"local_epsilon": 1}, title="one", reports=1)
    assert "Shuffling adds nothing" in _texts(review)
    assert rendered(review.title, review.version, review.sections, review.certificates, review.to_json())


_ABSURD = {
    "--reports 1000 --local-epsilon 1 --plan x.json": "give one of",
    "--reports 0 --local-epsilon 1": "reports must be",
    "--reports -5 --local-epsilon 1": "reports must be",
    "--reports 1.5 --local-epsilon 1": "reports must be",
    "--reports 1e30 --local-epsilon 1": "reports",
    "--reports 1000 --local-epsilon -1": "epsilon must be",
    "--reports 1000 --local-epsilon nan": "epsilon",
    "--reports 1000": "--local-epsilon",
    "--reports 1000 --local-epsilon 1 --delta 0": "delta must be",
    "--reports 1000 --local-epsilon 1 --delta 1": "delta must be",
    "--reports 1000 --local-epsilon 1 --malicious 1000": "malicious must be below",
    "--reports 1000 --local-epsilon 1 --malicious -1": "malicious must be",
    "--reports 1000 --local-epsilon 1 --malicious 0.5": "malicious must be",
    "--reports 1000 --local-epsilon 1 --title=": "title must be",
    "--reports 1000 --local-epsilon 1 --plain --json": "either --plain or --json",
    "--plan nothing.json": "cannot read",
    "--ledger nothing.json": "cannot read",
    "--training nothing.npz": "cannot read",
    "--task nothing.json": "cannot read",
    "--plan nothing.json --delta 1e-6": "--delta is for",
    "--ledger nothing.json --malicious 7": "--malicious is for",
    "--task nothing.json --local-epsilon 7": "what each person runs is in the task",
}


def test_the_verb_writes_a_page_that_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, entry = tmp_path / "review.html", tmp_path / "entry.json"
    command = ["review", "--reports", "1000", "--local-epsilon", "1", "--title", "a test", "--output", str(page)]
    assert main([*command, "--registry", str(entry)]) == 0
    assert wrong_fields(json.loads(entry.read_text())) == []
    assert main(["verify", str(page)]) == 0
    assert "proved: ε = " in capsys.readouterr().out
    page.write_text(page.read_text().replace("a test", "a lie", 1))
    assert main(["verify", str(page)]) == 1
    assert "was changed" in capsys.readouterr().out
    assert main(["review", "--reports", "1000", "--local-epsilon", "1"]) == 2
    assert main(["review", "--output", str(page)]) == 2
    capsys.readouterr()
    for words, said in _ABSURD.items():
        assert main(["review", *words.split(), "--output", str(page)]) == 2, words
        assert said in capsys.readouterr().err, words
    assert main(["review", "--reports", "1000", "--local-epsilon", "1", "--plain"]) == 0
    assert "Your answer is changed at random before it leaves your device" in capsys.readouterr().out
