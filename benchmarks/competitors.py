"""Time pure-ldp and multi-freq-ldpy: run by the benchmark in an environment of their own, one question a line.

Both want packages that shoal does not, so shoal's environment has neither. A question and its answer are each one line
of JSON, and this process waits between two questions, so that theirs and ours take turns.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["zipf"]

_ENOUGH = 0.1
"""CPU seconds after which a rate is believed."""


@cache
def zipf(categories: int, reports: int, seed: int = 1) -> NDArray[np.int64]:
    """Return values of which the x-th is as frequent as 1/x, the same in both processes."""
    weights = 1 / np.arange(1, categories + 1)
    edges = np.cumsum(weights / weights.sum())
    found = np.searchsorted(edges, np.random.default_rng(seed).random(reports))
    return np.minimum(found, categories - 1).astype(np.int64)


def _pure_ldp(mechanism: str, categories: int, local_epsilon: float) -> tuple[Any, Any]:
    """Return a client and a server of pure-ldp."""
    from pure_ldp.frequency_oracles.direct_encoding import (  # type: ignore[import-not-found]
        DEClient,
        DEServer,
    )
    from pure_ldp.frequency_oracles.hadamard_response import (  # type: ignore[import-not-found]
        HadamardResponseClient,
        HadamardResponseServer,
    )
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer  # type: ignore[import-not-found]
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer  # type: ignore[import-not-found]

    setting: dict[str, Any] = {"epsilon": local_epsilon, "d": categories, "index_mapper": lambda value: value}
    match mechanism:
        case "GRR":
            return DEClient(**setting), DEServer(**setting)
        case "SUE" | "OUE":
            setting["use_oue"] = mechanism == "OUE"
            return UEClient(**setting), UEServer(**setting)
        case "OLH":
            return LHClient(use_olh=True, **setting), LHServer(use_olh=True, **setting)
        case "HR":
            server = HadamardResponseServer(**setting)
            return HadamardResponseClient(hash_funcs=server.get_hash_funcs(), **setting), server
    raise ValueError(f"pure-ldp has no {mechanism}")


def _multi_freq_ldpy(
    mechanism: str, categories: int, local_epsilon: float
) -> tuple[Callable[[int], Any], Callable[[list[Any]], Any]]:
    """Return a client and an aggregator of multi-freq-ldpy."""
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE  # type: ignore[import-not-found]

    match mechanism:
        case "GRR":
            client, aggregator = GRR.GRR_Client, GRR.GRR_Aggregator_MI
        case "SS":
            client, aggregator = SS.SS_Client, SS.SS_Aggregator_MI
        case "OLH":
            client, aggregator = LH.LH_Client, LH.LH_Aggregator_MI
        case "SUE" | "OUE":
            best = mechanism == "OUE"
            return (
                lambda value: UE.UE_Client(value, categories, local_epsilon, best),
                lambda reports: UE.UE_Aggregator_MI(reports, local_epsilon, best),
            )
        case _:
            raise ValueError(f"multi-freq-ldpy has no {mechanism}")
    return (
        lambda value: client(value, categories, local_epsilon),
        lambda reports: aggregator(reports, categories, local_epsilon),
    )


def _rate(action: Callable[[int], object], most: int) -> float:
    """Return how many a CPU second, of the first count that takes long enough; smaller ones warm it up."""
    count = min(64, most)
    while True:
        start = time.process_time()
        action(count)
        seconds = time.process_time() - start
        if seconds >= _ENOUGH or count == most:
            return count / seconds
        count = min(most, max(2 * count, int(1.2 * count * _ENOUGH / max(seconds, _ENOUGH / 8))))


def encode(library: str, mechanism: str, categories: int, local_epsilon: float) -> dict[str, float]:
    """Return how many reports a second are made, one call a report: there is no other way."""
    values = zipf(categories, 10**6).tolist()
    if library == "pure-ldp":
        one = _pure_ldp(mechanism, categories, local_epsilon)[0].privatise
    else:
        one = _multi_freq_ldpy(mechanism, categories, local_epsilon)[0]

    one(values[0])  # numba compiles it now

    def run(count: int) -> None:
        for value in values[:count]:
            one(value)

    return {"rate": _rate(run, len(values))}


def aggregate(library: str, mechanism: str, categories: int, local_epsilon: float) -> dict[str, float]:
    """Return how many reports a second are counted; multi-freq-ldpy estimates from them in the same call."""
    values = zipf(categories, 1_000).tolist()
    action: Callable[[list[Any]], object]
    if library == "pure-ldp":
        client, server = _pure_ldp(mechanism, categories, local_epsilon)
        reports = [client.privatise(value) for value in values]
        action = server.aggregate_all
    else:
        one, action = _multi_freq_ldpy(mechanism, categories, local_epsilon)
        reports = [one(value) for value in values]
    reports *= 1_000  # the same ones again: they are slow to make
    return {"rate": _rate(lambda count: action(reports[:count]), len(reports))}


def end_to_end(categories: int, local_epsilon: float, reports: int) -> dict[str, float]:
    """Encode, count and decode with the Hadamard response of pure-ldp, and give the squared error too."""
    values = zipf(categories, reports)
    listed = values.tolist()
    clock = [time.process_time()]
    client, server = _pure_ldp("HR", categories, local_epsilon)
    made = [client.privatise(value) for value in listed]
    clock.append(time.process_time())
    server.aggregate_all(made)
    clock.append(time.process_time())
    server.estimate(0, suppress_warnings=True)
    clock.append(time.process_time())
    errors = server.estimated_data[:categories] / reports - np.bincount(values, minlength=categories) / reports
    spans = dict(zip(("encode", "aggregate", "decode"), np.diff(clock).tolist(), strict=True))
    return {**spans, "squared_error": float(errors @ errors)}


def main() -> None:
    """Answer questions until there are no more."""
    answers: dict[str, Callable[..., dict[str, float]]] = {
        "encode": encode,
        "aggregate": aggregate,
        "end_to_end": end_to_end,
    }
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(answers[question.pop("ask")](**question)), flush=True)


if __name__ == "__main__":
    main()
