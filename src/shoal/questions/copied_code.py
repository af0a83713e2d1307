"""A question as code to copy: a few lines of Python, and a command."""

import math
import shlex
from typing import Any

import shoal
from shoal.errors import ParameterError
from shoal.questions.parameters import USUAL_DELTA
from shoal.questions.question import Question, option, question
from shoal.questions.setting import Setting

FILES = {"table": "rounds.csv", "ledger": "ledger.json", "certificate": "proof.json"}


def code_of(asked: Question, arguments: dict[str, Any]) -> dict[str, str]:
    """Return the same question in Python and on the command line.

    Examples
    --------
    >>> from shoal.questions.question import question
    >>> code = code_of(question("amplify"), {"reports": 10_000.0, "local_epsilon": 1.0})
    >>> print(code["python"])
    import shoal
    <BLANKLINE>
    curve = shoal.amplify(local_epsilon=1, reports=10_000)
    print(curve.epsilon(1e-6))
    >>> code["command"]
    'shoal amplify --reports 10_000 --local-epsilon 1'
    """
    given = {name: value for name, value in arguments.items() if value != asked.parameters[name].default}
    lines = list(asked.python(given) if asked.python else asked_itself(asked, given))
    if not lines[0].startswith("from "):
        lines = ["import shoal", "", *lines]
    if any("Path(" in line for line in lines):
        lines = ["from pathlib import Path", "", *lines]
    return {"python": "\n".join(lines), "command": _command(asked, given)}


def _command(asked: Question, given: dict[str, Any]) -> str:
    words, options = ["shoal", asked.verb or asked.name], list[str]()
    for name, value in given.items():
        if name == asked.first:
            words.append(_file(asked, name) or _word(value))
        elif file := _file(asked, name):
            options += [option(name), file]
        elif value is True:
            options.append(option(name))
        elif name not in asked.without:
            options += [option(name), _word(value)]
    return " ".join([*words, *options, *filter(None, [asked.adds])])


def _file(asked: Question, name: str) -> str:
    """Return the usual name of the file that a parameter takes, or nothing if it takes none."""
    return FILES.get(name, f"{name}.txt") if asked.parameters[name].kind == "text" else ""


def _word(value: Any) -> str:
    """Return a value as it is typed in a shell."""
    text = literal(value) if isinstance(value, (int, float)) else str(value)
    return shlex.quote(text)


def literal(value: Any) -> str:
    """Return a value as it is written in Python; whole numbers in groups of three digits, 1e-6 without its zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        plain = isinstance(value, str) and value.isprintable() and not {'"', "\\"} & set(value)
        return f'"{value}"' if plain else repr(value)
    if not math.isfinite(value):
        raise ParameterError(f"there is no code for a question with {value!r}")
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):_}"
    return repr(float(value)).replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def call(function: str, *arguments: str) -> str:
    """Return a call with these arguments."""
    return f"{function}({', '.join(arguments)})"


def taken(given: dict[str, Any], *names: str) -> list[str]:
    """Return those of these arguments that were given, as a call has them."""
    return [f"{name}={literal(given[name])}" for name in names if name in given]


def runs(given: dict[str, Any]) -> list[str]:
    """Return the arguments that say what each person runs."""
    names = ("randomizer", "local_epsilon", "categories", "sigma")
    described: dict[str, Any] = {name: given.get(name) for name in names}
    kind = Setting(**described).described()
    if "randomizer" in kind:
        return [f"{_home(kind['randomizer'])}{kind['randomizer']!r}"]
    return taken(kind, "local_epsilon")


def _home(randomizer: Any) -> str:
    """Return what stands before the name of a randomizer: shoal itself, or the module of somebody's own."""
    kind = type(randomizer)
    return f"{'shoal' if getattr(shoal, kind.__name__, None) is kind else kind.__module__}."


def curve_lines(given: dict[str, Any]) -> list[str]:
    """Return the line that makes the curve of one round."""
    asked = [*runs(given), *taken(given, "local_delta", "reports", "bound")]
    return [f"curve = {call('shoal.amplify', *asked)}"]


def rounds_lines(name: str, given: dict[str, Any]) -> list[str]:
    """Return lines for the guarantee of many rounds; the code for a table calls the question."""
    if "table" in given:
        return asked_itself(question(name), given, '.facts["epsilon"]')
    delta = literal(given.get("delta", USUAL_DELTA))
    asked = [f"[(curve, {literal(given.get('rounds', 1))})]", *taken(given, "method")]
    lines = [*curve_lines(given), f"print({call('shoal.compose', *asked)}.epsilon({delta}))"]
    if "epsilon" in given:
        wanted = [*runs(given), *taken(given, "reports", "epsilon", "bound"), f"delta={delta}", 'solve_for="rounds"']
        lines.append(f"print({call('shoal.calibrate', *wanted)}.rounds)")
    return lines


def asked_itself(asked: Question, given: dict[str, Any], wanted: str = ".facts") -> list[str]:
    """Return lines that call the question; a table or another text comes from a file with a usual name."""
    files = {name: _file(asked, name) for name in given}
    texts = {name: f'{name}=NamedText(Path("{file}").read_text())' for name, file in files.items() if file}
    arguments = [texts.get(name) or taken(given, name)[0] for name in given]
    imports = [f"from shoal.questions.{asked.name} import {asked.name}"]
    if texts:
        imports.append("from shoal.questions.parameters import NamedText")
    return [*imports, "", f"print({call(asked.name, *arguments)}{wanted})"]


def opened(given: dict[str, Any]) -> list[str]:
    """Return the line that opens the ledger, if there is one."""
    return [f'ledger = shoal.Ledger("{FILES["ledger"]}")'] if "ledger" in given else []


def target(given: dict[str, Any]) -> list[str]:
    """Return δ and the ledger; without either, the usual δ."""
    if "ledger" in given:
        return [*taken(given, "delta"), "ledger=ledger"]
    return [f"delta={literal(given.get('delta', USUAL_DELTA))}"]
