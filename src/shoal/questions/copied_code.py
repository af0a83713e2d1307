"""A question as code to copy: a few lines of Python, and a command."""

import math
import shlex
from typing import Any

import shoal
from shoal.errors import ParameterError
from shoal.questions.parameters import USUAL_DELTA, usual_delta
from shoal.questions.question import Question
from shoal.questions.randomizer_choice import described

__all__ = ["code_of"]

_VERBS = {"attack": "amplify", "curve": "amplify", "rounds": "compose"}
"""Questions that have no verb of their own, and the one that is nearest."""
_OWN = ("against", "false_alarms", "least", "limit", "most", "points")
"""What that verb does not have."""
_FILES = {"table": "rounds.csv", "ledger": "ledger.json", "certificate": "proof.json"}


def code_of(asked: Question, arguments: dict[str, Any]) -> dict[str, str]:
    """Return the same question in Python and on the command line.

    Parameters
    ----------
    asked : Question
        The question.
    arguments : dict
        Its arguments. A file that was handed over is called by a usual name.

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
    return {"python": _python(asked, given), "command": _command(asked, given)}


def _command(asked: Question, given: dict[str, Any]) -> str:
    words, options = ["shoal", _VERBS.get(asked.name, asked.name)], list[str]()
    for name, value in given.items():
        if (asked.name, name) in (("explain", "name"), ("verify", "certificate")):
            words.append(_FILES.get(name, _word(value)))
        elif (asked.name, name) == ("ledger", "ledger"):
            words += ["show", _FILES[name]]
        elif name in _FILES:
            options += [_option(name), _FILES[name]]
        elif value is True:
            options.append(_option(name))
        elif asked.name not in _VERBS or name not in _OWN:
            options += [_option(name), _word(value)]
    drawn = {"curve": ["--plot", "curve.svg"], "rounds": ["--plot", "rounds.svg"]}
    return " ".join([*words, *options, *drawn.get(asked.name, [])])


def _option(name: str) -> str:
    return "--rounds" if name == "times" else f"--{name.replace('_', '-')}"


def _word(value: Any) -> str:
    """Return a value as it is typed in a shell."""
    text = _literal(value) if isinstance(value, (int, float)) else str(value)
    return shlex.quote(text)


def _literal(value: Any) -> str:
    """Return a value as it is written in Python; whole numbers in groups of three digits, 1e-6 without its zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        plain = isinstance(value, str) and value.isprintable() and not {'"', "\\"} & set(value)
        return f'"{value}"' if plain else repr(value)
    if not math.isfinite(value):
        raise ParameterError(f"there is no code for a question with {value!r}")
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):_}"
    return repr(float(value)).replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def _call(function: str, *arguments: str) -> str:
    return f"{function}({', '.join(arguments)})"


def _taken(given: dict[str, Any], *names: str) -> list[str]:
    """Return those of these arguments that were given, as a call has them."""
    return [f"{name}={_literal(given[name])}" for name in names if name in given]


def _runs(given: dict[str, Any]) -> list[str]:
    """Return the arguments that say what each person runs."""
    names = ("randomizer", "local_epsilon", "categories", "deviation")
    kind = described(*(given.get(name) for name in names))
    if "randomizer" in kind:
        return [f"{_home(kind['randomizer'])}{kind['randomizer']!r}"]
    return _taken(kind, "local_epsilon")


def _home(randomizer: Any) -> str:
    """Return what stands before the name of a randomizer: shoal itself, or the module of somebody's own."""
    kind = type(randomizer)
    return f"{'shoal' if getattr(shoal, kind.__name__, None) is kind else kind.__module__}."


def _python(asked: Question, given: dict[str, Any]) -> str:
    """Return lines that print the main number of the answer."""
    delta = given.get("delta", USUAL_DELTA)
    if "table" in given:
        return _of_table(asked, given)
    made = f"curve = {_call('shoal.amplify', *_amplify(given))}" if "reports" in given and asked.name in _ROUNDS else ""
    match asked.name:
        case "amplify" if given.get("certify"):
            lines = [made, f"print(curve.certify(delta={_literal(delta)}))"]
        case "amplify":
            lines = [made, f"print(curve.epsilon({_literal(delta)}))"]
        case "attack":
            lines = [made, f"print(curve.attack_success({_literal(given.get('false_alarms', 0.01))}))"]
        case "curve":
            lines = [made, f'curve.plot(delta={_literal(delta)}).figure.savefig("curve.svg")']
        case "compose" | "rounds":
            rounds = [f"[(curve, {_literal(given.get('times', 1))})]", *_taken(given, "method")]
            lines = [made, f"print({_call('shoal.compose', *rounds)}.epsilon({_literal(delta)}))"]
            if "epsilon" in given:
                asking = [*_runs(given), *_taken(given, "reports", "epsilon", "bound"), f"delta={_literal(delta)}"]
                lines.append(f"print({_call('shoal.calibrate', *asking, 'times=None')}.times)")
        case "compare":
            asking = [*_runs(given), *_taken(given, "local_delta", "reports"), f"delta={_literal(delta)}"]
            lines = [f"for curve in {_call('shoal.compare', *asking)}:"]
            lines.append(f"    print(curve.bound, curve.epsilon({_literal(delta)}))")
        case "calibrate":
            lines = [*_opened(given), f"print({_call('shoal.calibrate', *_calibrate(given))})"]
        case "plan":
            names = ("categories", "reports", "epsilon", "local_epsilon", "times")
            lines = [*_opened(given), f"print({_call('shoal.plan', *_taken(given, *names), *_target(given))})"]
        case "sgd":
            lines = _sgd(given, delta)
        case "explain":
            name = [_literal(given["name"])] if "name" in given else []
            lines = [f"print({_call('shoal.explain' if name else 'shoal.theorems', *name, *_taken(given, 'kind'))})"]
        case "ledger":
            lines = [
                *_opened(given),
                f"print(ledger.spent({_literal(usual_delta(given.get('delta'), given['ledger']))}))",
            ]
        case _:
            text = f'Path("{_FILES["certificate"]}").read_text()'
            return f"from pathlib import Path\n\nimport shoal\n\nprint(shoal.Certificate.from_json({text}).verify())"
    return "\n".join(["import shoal", "", *lines])


_ROUNDS = ("amplify", "attack", "curve", "compose", "rounds")


def _amplify(given: dict[str, Any]) -> list[str]:
    return [*_runs(given), *_taken(given, "local_delta", "reports", "bound")]


def _opened(given: dict[str, Any]) -> list[str]:
    return [f'ledger = shoal.Ledger("{_FILES["ledger"]}")'] if "ledger" in given else []


def _target(given: dict[str, Any]) -> list[str]:
    """Return δ and the ledger; without either, the usual δ."""
    if "ledger" in given:
        return [*_taken(given, "delta"), "ledger=ledger"]
    return [f"delta={_literal(given.get('delta', USUAL_DELTA))}"]


def _calibrate(given: dict[str, Any]) -> list[str]:
    known = {"randomizer", "categories"} & given.keys()
    kind = _runs({"local_epsilon": 1.0, **given}) if known else _taken(given, "local_epsilon")
    both = ["times=None"] if {"reports", "local_epsilon"} <= given.keys() else []
    return [*kind, *_taken(given, "epsilon", "reports", "times", "bound"), *both, *_target(given)]


def _sgd(given: dict[str, Any], delta: float) -> list[str]:
    sampling = {"sampling": "allocation"} if given.get("adjacency") == "add-remove" else {}
    described = {name: value for name, value in given.items() if name not in ("delta", "epsilon", "poisson")}
    run = _taken(sampling | described, *(sampling | described))
    lines = [f"run = {_call('shoal.sgd.Run', *run)}"]
    at = f"delta={_literal(delta)}"
    if "epsilon" in given:
        lines += [f"run = {_call('shoal.sgd.calibrate', 'run', *_taken(given, 'epsilon'), at)}", "print(run)"]
    return [*lines, f"print({_call('shoal.sgd.guarantee', 'run', at)})"]


def _of_table(asked: Question, given: dict[str, Any]) -> str:
    """Return lines that ask the question itself, which reads tables."""
    handed = next(name for name in given if name in _FILES)
    rest = _taken(given, *(name for name in given if name != handed))
    text = f'{handed}=NamedText(Path("{_FILES[handed]}").read_text())'
    imports = [
        "from pathlib import Path",
        "",
        f"from shoal.questions.{asked.name} import {asked.name}",
        "from shoal.questions.named_text import NamedText",
    ]
    return "\n".join([*imports, "", f'print({_call(asked.name, text, *rest)}.facts["epsilon"])'])
