"""The page as a folder of files, in a real browser: it answers by itself, and says what needs a server."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

import shoal
from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.web.static_site import write

PATIENCE = 60_000.0
"""Milliseconds: the machine may be busy."""
RELATIVE = 1e-6
DOWNLOADED = os.environ.get("SHOAL_PYODIDE")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that `shoal web --static` writes."""
    path = tmp_path_factory.mktemp("static") / "site"
    write(path)
    return path


@pytest.fixture
def tab(browser: Browser, served: Callable[[Path], str], folder: Path) -> Iterator[Tab]:
    """Return a tab with the page, in which nothing may go wrong, and which asks nobody else."""
    yield from _tab(browser, served(folder))


def _tab(browser: Browser, address: str) -> Iterator[Tab]:
    context = browser.new_context()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE)
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    tab.on("request", lambda request: None if request.url.startswith(address) else wrong.append(request.url))
    tab.goto(f"{address}/")
    yield tab
    context.close()
    assert wrong == []


def _within(text: str, epsilon: float) -> None:
    """Check a number that is shown: never below the guarantee, and above it by its digits at most."""
    shown = float(re.findall(r"ε = ([0-9.e-]+)", text)[0])
    assert epsilon <= shown <= epsilon * (1 + RELATIVE) + float(rounded_up(epsilon)) * 1e-5


@pytest.mark.slow
def test_the_guarantee_follows_the_slider(tab: Tab) -> None:
    number, panel = tab.locator("#guarantee .number"), tab.locator("#guarantee")
    for typed in ("10000", "1e6", "123_456", "3", "1e11"):
        tab.locator("#guarantee-reports").fill(typed)
        curve = shoal.amplify(local_epsilon=1, reports=int(float(typed)), bound="strong-clones")
        start = rounded_up(curve.epsilon(1e-6))[:5]
        expect(number).to_contain_text(f"ε = {start}", timeout=PATIENCE)
        _within(number.inner_text(), curve.epsilon_bracket(1e-6)[0])
    slider = panel.get_by_label("People, slider")
    slider.focus()
    slider.press("Home")
    expect(number).to_contain_text("ε = 0.999999 ", timeout=PATIENCE)
    slider.press("End")
    expect(number).to_contain_text("ε = 0 ", timeout=PATIENCE)
    assert tab.locator("#guarantee-reports").input_value() == "1000000000000"
    tab.locator("#guarantee-delta").fill("1e-12")
    expect(number).to_contain_text("e-", timeout=PATIENCE)
    expect(number).to_contain_text("at δ = 1e-12", timeout=PATIENCE)
    kernel = tab.evaluate("async () => (await import('./clones.js')).amplified(1e12, 1, 1e-12)")
    assert kernel <= float(re.findall(r"ε = ([0-9.e-]+)", number.inner_text())[0]) <= kernel * (1 + 1e-5)


@pytest.mark.slow
def test_charts_the_attacker_and_the_theorem(tab: Tab) -> None:
    panel = tab.locator("#guarantee")
    curve = shoal.amplify(local_epsilon=1, reports=10_000, bound="strong-clones")
    expect(panel.locator("svg.shoal-chart")).to_have_count(2, timeout=PATIENCE)
    charts = panel.locator("path.shoal-line")
    for index, at in ((0, 40), (1, 40)):
        line = charts.nth(index)
        x = float((line.get_attribute("data-xs") or "").split()[at])
        y = float((line.get_attribute("data-ys") or "").split()[at])
        there = shoal.amplify(local_epsilon=1, reports=int(x), bound="strong-clones") if index == 0 else curve
        lower, upper = there.epsilon_bracket(1e-6 if index == 0 else x)
        assert lower <= y <= upper * (1 + RELATIVE)
    expect(panel.locator("text.shoal-mark").first).to_have_text(f"ε = {rounded_up(curve.epsilon(1e-6), 3)}")
    expect(panel).to_contain_text("false alarms", timeout=PATIENCE)
    shown = re.findall(r"probability ([0-9.]+) %", panel.inner_text())
    success = curve.attack_success(0.01)
    assert success <= float(shown[0]) / 100 <= success * 1.01
    drawn = tab.evaluate(
        """async () => {
            const { ask } = await import("./ask.js");
            const asked = { against: "delta", reports: "1000", local_epsilon: "1", delta: "1e-6" };
            return Promise.all(["svg", "inline"].map((as) => ask("curve", { ...asked, as })));
        }"""
    )
    assert ["<style>" in text for text in drawn] == [True, False]
    expect(panel).to_contain_text("The comparison with all other bounds needs a server")
    panel.locator("summary").click()
    link = panel.get_by_role("link", name="All that is known of this bound")
    expect(link).to_be_visible()
    answer = tab.request.get(f"{tab.url.split('#')[0]}{link.get_attribute('href')}")
    assert answer.json()["name"] == "strong-clones"


@pytest.mark.slow
def test_what_is_copied_gives_the_same_number(tab: Tab, capsys: pytest.CaptureFixture[str]) -> None:
    number = tab.locator("#guarantee .number")
    expect(number).to_contain_text("ε = ", timeout=PATIENCE)
    tab.get_by_role("button", name="Copy Python").click()
    expect(tab.locator("#state")).to_contain_text("Copied", timeout=PATIENCE)
    exec(compile(tab.evaluate("navigator.clipboard.readText()"), "copied", "exec"), {})
    _within(number.inner_text(), float(capsys.readouterr().out) * (1 - 1e-9))


@pytest.mark.slow
def test_absurd_input_is_refused_in_its_field(tab: Tab) -> None:
    panel = tab.locator("#guarantee")
    for name, text, words in (
        ("reports", "0,5", "comma"),
        ("reports", "1e13", "without a server"),
        ("reports", "2.5", "whole number"),
        ("reports", "", "nothing"),
        ("local_epsilon", "<b>x</b>", 'got "<b>x</b>"'),
        ("local_epsilon", "1e400", "from 0.001 to 16"),
        ("delta", "-1", "from 1e-20 to 0.5"),
    ):
        field, before = tab.locator(f"#guarantee-{name}"), tab.locator(f"#guarantee-{name}").input_value()
        field.fill(text)
        expect(tab.locator(f"#guarantee-{name}-error")).to_contain_text(words)
        assert field.get_attribute("aria-invalid") == "true"
        expect(panel).to_have_class(re.compile("stale"))
        field.fill(before)
        expect(tab.locator(f"#guarantee-{name}-error")).to_be_empty()
    panel.get_by_label("What each person runs").select_option("randomized-response")
    expect(tab.locator("#guarantee-randomizer-error")).to_contain_text("needs a server")


@pytest.mark.slow
def test_panels_that_need_a_server_say_so_at_once(tab: Tab) -> None:
    for name in ("backwards", "histogram", "rounds", "training"):
        tab.evaluate("hash => { location.hash = hash; }", f"#{name}")
        expect(tab.locator(f"#{name} .error[role=alert]")).to_contain_text("needs a server: pip install")
    assert tab.get_by_role("link", name="API").count() == 0


@pytest.mark.slow
def test_without_python_the_page_says_how_to_verify(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "proof.json").write_text("{}")
    tab.evaluate("location.hash = '#verify'")
    tab.locator("#verify input[type=file]").set_input_files(tmp_path / "proof.json")
    expect(tab.locator("#verify .verdict")).to_have_class("verdict unchecked")
    expect(tab.locator("#verify .verdict")).to_contain_text("Not checked. This folder has no Python in it")
    expect(tab.locator("#verify .verdict")).to_contain_text("shoal verify FILE")
    expect(tab.locator("#verify .verdict")).to_contain_text("--pyodide DIR")


@pytest.mark.slow
@pytest.mark.skipif(DOWNLOADED is None, reason="SHOAL_PYODIDE names no folder with Pyodide and python-flint for it")
def test_certificates_are_proved_or_refused_in_the_browser(
    browser: Browser, served: Callable[[Path], str], tmp_path: Path
) -> None:
    assert DOWNLOADED is not None
    write(tmp_path / "site", Path(DOWNLOADED))
    curves = {
        "swap-chains": shoal.amplify(local_epsilon=1, reports=10_000),
        "strong-clones": shoal.amplify(local_epsilon=1, reports=10_000, bound="strong-clones"),
        "randomized-response": shoal.amplify(shoal.RandomizedResponse(categories=4, local_epsilon=1), reports=1_000),
        "laplace": shoal.amplify(shoal.Laplace(local_epsilon=1), reports=1_000),
        "rounds": shoal.compose([(shoal.amplify(local_epsilon=1, reports=10_000, bound="strong-clones"), 10)]),
    }
    for tab in _tab(browser, served(tmp_path / "site")):
        tab.evaluate("location.hash = '#verify'")
        file, said = tab.locator("#verify input[type=file]"), tab.locator("#verify .verdict")
        for name, curve in curves.items():
            proof = curve.certify(delta=1e-6)
            good = tmp_path / f"{name}.json"
            good.write_text(proof.to_json())
            file.set_input_files(good)
            expect(said).to_contain_text("Proved.", timeout=2 * PATIENCE)
            expect(said).to_have_class("verdict proved")
            lie = tmp_path / f"{name}-lie.json"
            lie.write_text(replace(proof, proven_delta=proof.proven_delta / 2).to_json())
            file.set_input_files(lie)
            expect(said).to_contain_text("is not proved: the balls show", timeout=2 * PATIENCE)
        changed = good.read_text().replace("10000", "20000")
        for name, text, words in (("none", "{", "neither a certificate"), ("changed", changed, "was changed")):
            (tmp_path / f"{name}.json").write_text(text)
            file.set_input_files(tmp_path / f"{name}.json")
            expect(said).to_contain_text(words)


def test_the_folder_is_small_and_has_a_policy(folder: Path) -> None:
    own = [path for path in folder.rglob("*") if path.suffix in (".js", ".css", ".html")]
    assert sum(path.stat().st_size for path in own) <= 60_000
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= 100_000
    assert "default-src 'self'" in (folder / "index.html").read_text(encoding="utf-8")
    assert not {"offline.js", "prove.js", "prover.js", "api.css", "pyodide"} & {path.name for path in folder.iterdir()}


def test_python_for_the_browser_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"has no pyodide\.mjs; get both with `npm pack pyodide`"):
        write(tmp_path / "site", tmp_path)
    assert not (tmp_path / "site").exists()
