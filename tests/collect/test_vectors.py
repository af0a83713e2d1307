"""The protocol's test vectors (docs/protocol.md), against shoal and against HPKE written anew from RFC 9180.

`python -m tests.collect.test_vectors` writes vectors.json again: the same bytes, as long as the protocol is the same.
"""

import hashlib
import hmac
import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import shoal
from shoal.collect.batch import BatchFile, Manifest, write_batch
from shoal.collect.counting import SealedRound
from shoal.collect.envelope import information, opened, plaintexts, seal
from shoal.collect.kinds.dummy_rounds import DummyRounds, proof_of, proven
from shoal.collect.kinds.heavy_hitter_rounds import HeavyHitterRounds, PrefixList
from shoal.collect.round_state import record
from shoal.collect.task import Task
from shoal.files.names import Names
from shoal.mechanisms import Categorical
from shoal.pairs.registry import REGISTRY, wire_code
from shoal.planning.heavy_hitter_plan import HeavyHitterPlan

_PATH = Path(__file__).with_name("vectors.json")
_KEM = b"KEM" + bytes.fromhex("0020")
_HPKE = b"HPKE" + bytes.fromhex("002000010001")
_ROUND = 7
_TOKEN = "correct-horse-battery-staple"


# HPKE, base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, in the words of RFC 9180.


def _labeled_extract(suite: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + ikm, "sha256")


def _labeled_expand(suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    stated = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    found, block = b"", b""
    while len(found) < length:
        block = hmac.digest(prk, block + stated + bytes([len(found) // 32 + 1]), "sha256")
        found += block
    return found[:length]


def _shared_secret(exchanged: bytes, enc: bytes, recipient: bytes) -> bytes:
    prk = _labeled_extract(_KEM, b"", b"eae_prk", exchanged)
    return _labeled_expand(_KEM, prk, b"shared_secret", enc + recipient, 32)


def _key_and_nonce(shared_secret: bytes, info: bytes) -> tuple[bytes, bytes]:
    context = b"\0" + _labeled_extract(_HPKE, b"", b"psk_id_hash", b"")
    context += _labeled_extract(_HPKE, b"", b"info_hash", info)
    secret = _labeled_extract(_HPKE, shared_secret, b"secret", b"")
    return _labeled_expand(_HPKE, secret, b"key", context, 16), _labeled_expand(
        _HPKE, secret, b"base_nonce", context, 12
    )


def _raw(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def _sealed(ephemeral: bytes, recipient: bytes, info: bytes, plaintext: bytes) -> bytes:
    own = X25519PrivateKey.from_private_bytes(ephemeral)
    exchanged = own.exchange(X25519PublicKey.from_public_bytes(recipient))
    key, nonce = _key_and_nonce(_shared_secret(exchanged, _raw(own), recipient), info)
    return _raw(own) + AESGCM(key).encrypt(nonce, plaintext, b"")


def _opened(private: bytes, info: bytes, ciphertext: bytes) -> bytes:
    own, enc = X25519PrivateKey.from_private_bytes(private), ciphertext[:32]
    exchanged = own.exchange(X25519PublicKey.from_public_bytes(enc))
    key, nonce = _key_and_nonce(_shared_secret(exchanged, enc, _raw(own)), info)
    return AESGCM(key).decrypt(nonce, ciphertext[32:], b"")


# How the file is made.


def _named(name: str) -> bytes:
    """Return 32 bytes that anybody can make again."""
    return hashlib.sha256(f"shoal vectors, {name}".encode()).digest()


def _fields(mechanism: Categorical, **changes: Any) -> dict[str, Any]:
    analyst = X25519PrivateKey.from_private_bytes(_named("analyst"))
    shuffler = Ed25519PrivateKey.from_private_bytes(_named("shuffler"))
    return {
        "question": "Which?",
        "mechanism": mechanism,
        "names": Names(mechanism.categories),
        "delta": 1e-6,
        "epsilon_limit": 2.0,
        "minimum": 3,
        "malicious": 0,
        "round_seconds": 86400,
        "too_small": "discard",
        "replay_rounds": 8,
        "analyst_key": _raw(analyst),
        "shuffler_key": shuffler.public_key().public_bytes_raw(),
    } | changes


def _cases() -> list[tuple[Task, Any]]:
    """Return a task for each mechanism, and a report of it; these ε₀ are within the limit for any number of reports."""
    first = _fields(
        shoal.RandomizedResponse(categories=4, local_epsilon=4),
        question="Quelle couleur préférez-vous?",
        names=Names.parsed("rouge,vert,écarlate,noir"),
        epsilon_limit=1.0,
        minimum=5000,
        malicious=100,
        too_small="extend",
    )
    others: list[tuple[Categorical, Any]] = [
        (shoal.RandomizedResponse(categories=4, local_epsilon=1), 3),
        (shoal.RandomizedResponse(categories=100_000, local_epsilon=2), 99_999),
        (shoal.HadamardResponse(categories=1000, local_epsilon=2, blocks=4), 700),
        (shoal.RecursiveHadamardResponse(categories=1000, local_epsilon=2, blocks=2), 777),
        (shoal.ProjectiveGeometryResponse(categories=1000, local_epsilon=2, order=7, dimension=5, blocks=1), 2800),
        (shoal.PrivateIndependentRappor(categories=1000, local_epsilon=1, order=7, window=2), 16_806),
        (
            shoal.SubsetSelection(categories=100, local_epsilon=2, size=12),
            [0, 3, 9, 17, 31, 32, 33, 64, 65, 77, 98, 99],
        ),
        (shoal.SubsetSelection(categories=1000, local_epsilon=2, size=3), [1, 511, 999]),
        (shoal.LocalHashing(categories=1000, local_epsilon=2, buckets=7), 2401),
        (shoal.UnaryEncoding(categories=20, local_epsilon=2), [0b10000001, 0b00000000, 0b00001010]),
        (shoal.Rappor(categories=16, local_epsilon=2), [0b00000100, 0b10000000]),
        (shoal.Dummies(categories=4, epsilon=1, limit=27), 2),
    ]
    covers = shoal.Covered(categories=4, slots=2, fill=0.5)
    response = shoal.ProjectiveGeometryResponse(categories=1000, local_epsilon=4, order=7, dimension=5, blocks=1)
    hashed = shoal.Covered(categories=1000, slots=1, fill=0.5, response=response)
    people = [
        *((covers, report) for report in (3, covers.null)),  # a message, and an empty one
        *((hashed, report) for report in (2800, hashed.null)),
    ]
    return [
        (Task(**first), 2),
        *((Task(**_fields(mechanism)), report) for mechanism, report in others),
        *((Task(**_fields(mechanism, minimum=5000)), report) for mechanism, report in people),
    ]


def _vector(task: Task, report: Any, number: int) -> dict[str, Any]:
    rows = np.array([report], np.uint8 if isinstance(task.mechanism, shoal.UnaryEncoding) else np.uint32)
    (plaintext,) = plaintexts(task, rows)
    ephemeral = _named(f"ephemeral key {number}")
    return {
        "mechanism": task.mechanism.name,
        "code": wire_code(task.mechanism),
        "task": task.to_bytes().decode(),
        "task_id": task.id,
        "round": _ROUND,
        "info": information(task, _ROUND).hex(),
        "report": report,
        "value": task.mechanism.to_bytes(rows).hex(),
        "plaintext": plaintext.hex(),
        "ephemeral_private_key": ephemeral.hex(),
        "ciphertext": _sealed(ephemeral, task.analyst_key, information(task, _ROUND), plaintext).hex(),
    }


def _invalid(task: Task) -> list[dict[str, str]]:
    """Return what the analyst must count as invalid, for a task with four categories."""
    (fine,) = plaintexts(task, [3])
    info, key, ephemeral = information(task, _ROUND), task.analyst_key, _named("ephemeral key of invalid ones")
    sealed = _sealed(ephemeral, key, info, fine)
    flipped = sealed[:31] + bytes([sealed[31] ^ 0x80]) + sealed[32:]
    undecryptable = {
        "sealed for another round": _sealed(ephemeral, key, information(task, _ROUND + 1), fine),
        "the unused bit of the encapsulated key flipped": flipped,
        "the last bit of the tag flipped": sealed[:-1] + bytes([sealed[-1] ^ 1]),
        "an encapsulated key of small order": bytes(32) + sealed[32:],
    }
    malformed = {
        "another version": b"\2" + fine[1:],
        "another mechanism": fine[:1] + b"\2" + fine[2:],
        "padding that is not zero": fine[:-1] + b"\1",
        "a fifth category": fine[:2] + b"\4" + fine[3:],
    }
    return [{"kind": "undecryptable", "why": why, "ciphertext": body.hex()} for why, body in undecryptable.items()] + [
        {"kind": "malformed", "why": why, "ciphertext": _sealed(ephemeral, key, info, body).hex()}
        for why, body in malformed.items()
    ]


def _made() -> str:
    cases = _cases()
    task = cases[1][0]
    records = [
        _sealed(_named(f"ephemeral key {place} of the batch"), task.analyst_key, information(task, _ROUND), plaintext)
        for place, plaintext in enumerate(plaintexts(task, [2, 0, 3]))
    ]
    with io.BytesIO() as file:
        manifest = write_batch(file, task, _ROUND, len(records), records)
        batch = file.getvalue()
    several = next(task for task, _ in cases if isinstance(task.mechanism, shoal.Dummies))
    messages = [
        _sealed(_named(f"message {place}"), several.analyst_key, information(several, _ROUND), plaintext)
        for place, plaintext in enumerate(plaintexts(several, [2, 0, 3, 0, 1]))
    ]
    with io.BytesIO() as file:
        stated = write_batch(file, several, _ROUND, 3, messages, messages=len(messages))
        released = file.getvalue()
    token_key = _named("token key")
    content = {
        "analyst": {
            "private_key": _named("analyst").hex(),
            "public_key": task.analyst_key.hex(),
            "key_id": task.key_id.hex(),
        },
        "shuffler": {"private_key": _named("shuffler").hex(), "public_key": task.shuffler_key.hex()},
        "reports": [_vector(task, report, number) for number, (task, report) in enumerate(cases)],
        "invalid": {"task_id": task.id, "round": _ROUND, "records": _invalid(task)},
        "batch": {
            "task_id": task.id,
            "round": _ROUND,
            "records": [body.hex() for body in records],
            "file": batch.hex(),
            "manifest": manifest.signed(Ed25519PrivateKey.from_private_bytes(_named("shuffler"))).decode(),
        },
        "several": {
            "task_id": several.id,
            "round": _ROUND,
            "records": [body.hex() for body in messages],
            "file": released.hex(),
            "manifest": stated.signed(Ed25519PrivateKey.from_private_bytes(_named("shuffler"))).decode(),
        },
        "helper": _helper_vector(messages),
        "hunt": _search_vector(),
        "replay": {"ciphertext": records[0].hex(), "digest": record(records[0]).digest.hex()},
        "token": {
            "token": _TOKEN,
            "listed": hashlib.sha256(_TOKEN.encode()).hexdigest(),
            "round_key": token_key.hex(),
            "tag": hmac.digest(token_key, _TOKEN.encode(), "sha256")[:16].hex(),
        },
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _helper_vector(dummies: list[bytes]) -> dict[str, Any]:
    """Return a task with a helper, and what it sends; to be opened, the dummies would have to be of that task."""
    key, body = Ed25519PrivateKey.from_private_bytes(_named("helper")), b"".join(sorted(dummies))
    mechanism = shoal.Dummies(categories=4, epsilon=1, limit=27, helpers=2)
    task = Task(**_fields(mechanism, kind=DummyRounds((key.public_key().public_bytes_raw(),))))
    return {
        "private_key": _named("helper").hex(),
        "task": task.to_bytes().decode(),
        "task_id": task.id,
        "round": _ROUND,
        "body": body.hex(),
        "authorization": proof_of(key, task, _ROUND, body),
        "asking": proof_of(key, task, 0, b""),
    }


def _search_vector() -> dict[str, Any]:
    """Return a task with a search, the lists of its two rounds, and the plaintext of a message of the second."""
    key = Ed25519PrivateKey.from_private_bytes(_named("lists"))
    plan = HeavyHitterPlan(people=3, bits=16, first=8, step=8, slots=1, fill=0.5, order=101)
    public = key.public_key().public_bytes_raw().hex()
    terms = HeavyHitterRounds(bits=16, first=8, step=8, deviations=5.0, code="bytes", list_key=public)
    task = Task(**_fields(plan.mechanism, kind=terms, too_small="extend", epsilon_limit=17.0))
    first = PrefixList.signed(task, 1, (0,), None, key)
    second = PrefixList.signed(task, 2, (103, 117), first, key)
    (plaintext,) = plaintexts(task, [1234], second.mechanism)
    return {
        "private_key": _named("lists").hex(),
        "task": task.to_bytes().decode(),
        "task_id": task.id,
        "lists": [first.data.decode(), second.data.decode()],
        "message": 1234,
        "plaintext": plaintext.hex(),
        "dimension": second.mechanism.response.dimension,  # type: ignore[union-attr]
        "string": "go",
        "category": second.category_of(terms.number_of("go")),
    }


# What is checked.


@cache
def _vectors() -> dict[str, Any]:
    return json.loads(_PATH.read_text())  # type: ignore[no-any-return]


@cache
def _task(task_id: str) -> Task:
    (text,) = {one["task"] for one in _vectors()["reports"] if one["task_id"] == task_id}
    return Task.from_bytes(text.encode(), pinned=task_id)


_INDICES = range(17)


@pytest.mark.slow
def test_file_is_what_this_module_writes() -> None:
    """All signatures and ciphertexts come out the same, byte for byte."""
    assert _PATH.read_text() == _made()
    assert len(_vectors()["reports"]) == len(_INDICES)
    assert (
        {one["code"] for one in _vectors()["reports"]}
        == set(range(1, 12))
        == {row.code for row in REGISTRY.values() if row.code is not None}
    )


@pytest.mark.slow
@pytest.mark.parametrize("index", _INDICES)
def test_report(index: int) -> None:
    """Task, id, info, value and plaintext are put together by hand here; both implementations open both's seals."""
    vector, analyst = _vectors()["reports"][index], _vectors()["analyst"]
    task, private = _task(vector["task_id"]), bytes.fromhex(analyst["private_key"])
    assert hashlib.sha256(vector["task"].encode()).hexdigest() == vector["task_id"]
    stated = json.loads(vector["task"])
    assert json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == vector["task"]
    assert (stated["analyst_key"], stated["key_id"]) == (analyst["public_key"], analyst["key_id"])
    assert analyst["key_id"] == hashlib.sha256(bytes.fromhex(analyst["public_key"])).hexdigest()[:16]
    info = b"shoal report 1" + bytes.fromhex(vector["task_id"]) + vector["round"].to_bytes(8, "big")
    info += bytes.fromhex(analyst["key_id"])
    assert info.hex() == vector["info"] == information(task, vector["round"]).hex()
    value, plaintext, body = (bytes.fromhex(vector[name]) for name in ("value", "plaintext", "ciphertext"))
    assert plaintext == (bytes([1, vector["code"]]) + value).ljust(-(-(2 + len(value)) // 16) * 16, b"\0")
    assert task.mechanism.from_bytes(value)[0].tolist() == vector["report"]
    assert len(body) == len(plaintext) + 48 == stated["ciphertext_bytes"]
    assert body == _sealed(bytes.fromhex(vector["ephemeral_private_key"]), task.analyst_key, info, plaintext)
    assert _opened(private, info, body) == plaintext
    assert opened(X25519PrivateKey.from_private_bytes(private), info, [body]) == [plaintext]
    assert _opened(private, info, seal(task, vector["round"], plaintext)) == plaintext


@pytest.mark.parametrize("index", _INDICES)
def test_value_means_what_the_protocol_says(index: int) -> None:
    """Which categories a report supports, from its bytes by the rules of docs/protocol.md, in plain Python."""
    vector = _vectors()["reports"][index]
    mechanism = _task(vector["task_id"]).mechanism
    reports = np.repeat(mechanism.from_bytes(bytes.fromhex(vector["value"])), mechanism.categories, axis=0)
    supported = np.flatnonzero(mechanism.supports(reports, np.arange(mechanism.categories))).tolist()
    assert supported == _supported(json.loads(vector["task"])["mechanism"], bytes.fromhex(vector["value"]))


def _supported(schema: dict[str, Any], value: bytes) -> list[int]:
    number, every = int.from_bytes(value, "little"), range(schema["categories"])
    match schema["mechanism"]:
        case "randomized-response" | "dummies":
            return [number]
        case "covered" if schema["response"] is None:
            return [number] if number < len(every) else []
        case "covered":
            points = (schema["response"]["order"] ** schema["response"]["dimension"] - 1) // (
                schema["response"]["order"] - 1
            )
            return _supported(schema["response"], value) if number < points else []
        case "hadamard-response":
            blocks = schema["blocks"]
            order = 1 << (-(-len(every) // blocks)).bit_length()
            block, column = divmod(number, order)
            return [x for x in every if x % blocks == block and not (x // blocks + 1 & column).bit_count() % 2]
        case "recursive-hadamard-response":
            blocks = schema["blocks"]
            rows = 1 << (-(-len(every) // blocks) - 1).bit_length()
            block, rest = divmod(number, 2 * rows)
            return [x for x in every if x % blocks == block and (x // blocks & rest // 2).bit_count() % 2 == rest % 2]
        case "projective-geometry-response":
            q, t, blocks = schema["order"], schema["dimension"], schema["blocks"]
            block, point = divmod(number, (q**t - 1) // (q - 1))
            vector = _point(point, q, t)
            return [x for x in every if x % blocks == block and not _inner(vector, _point(x // blocks, q, t)) % q]
        case "private-independent-rappor" | "local-hashing":
            q, window = schema["order" if "order" in schema else "buckets"], schema.get("window", 1)
            t = next(t for t in range(1, 64) if q**t >= len(every))
            seed, bucket = divmod(number, q)
            return [x for x in every if (_inner(_digits(seed, q, t), _digits(x, q, t)) - bucket) % q < window]
        case "subset-selection":
            width = (len(every) - 1).bit_length()
            if len(every) > schema["size"] * width:
                return [number >> width * place & (1 << width) - 1 for place in range(schema["size"])]
    return [x for x in every if number >> x & 1]


def _digits(number: int, q: int, t: int) -> list[int]:
    return [number // q**place % q for place in range(t)]


def _point(place: int, q: int, t: int) -> list[int]:
    lead = next(lead for lead in range(t) if place < (q ** (lead + 1) - 1) // (q - 1))
    return _digits(place - (q**lead - 1) // (q - 1) + q**lead, q, t)


def _inner(first: list[int], second: list[int]) -> int:
    return sum(a * b for a, b in zip(first, second, strict=True))


def test_invalid_records() -> None:
    """Each of them is counted as what it is, and none as a report."""
    stated, private = _vectors()["invalid"], bytes.fromhex(_vectors()["analyst"]["private_key"])
    task = _task(stated["task_id"])
    for one in stated["records"]:
        found = SealedRound.of(task, stated["round"], task.mechanism).count(private, bytes.fromhex(one["ciphertext"]))
        assert (found.valid, getattr(found, one["kind"])) == (0, 1), one["why"]


def test_batch_and_manifest(tmp_path: Path) -> None:
    """The header is 100 bytes, and what is signed is a label and the manifest without its signature."""
    stated, signer = _vectors()["batch"], _vectors()["shuffler"]
    task, records = _task(stated["task_id"]), [bytes.fromhex(body) for body in stated["records"]]
    digest = hashlib.sha256(b"".join(records))
    head = b"shoal batch 1\n\n\n" + bytes.fromhex(stated["task_id"]) + stated["round"].to_bytes(8, "big")
    head += len(records).to_bytes(8, "big") + len(records[0]).to_bytes(4, "big") + digest.digest()
    assert len(head) == 100
    assert (head + b"".join(records)).hex() == stated["file"]
    content = json.loads(stated["manifest"])
    signature = content.pop("signature")
    message = b"shoal manifest 1\n" + json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(signer["private_key"]))
    assert key.public_key().public_bytes_raw().hex() == signer["public_key"]
    key.public_key().verify(bytes.fromhex(signature), message)
    assert content == {
        "format": "shoal manifest 1",
        "record_bytes": len(records[0]),
        "reports": len(records),
        "round": stated["round"],
        "sha256": digest.hexdigest(),
        "task": stated["task_id"],
    }
    manifest = Manifest.verified(stated["manifest"].encode(), task, stated["round"])
    path = tmp_path / "batch"
    path.write_bytes(bytes.fromhex(stated["file"]))
    assert list(BatchFile.checked(path, task, manifest).records(0, len(records))) == records
    private = bytes.fromhex(_vectors()["analyst"]["private_key"])
    assert SealedRound.of(task, stated["round"], task.mechanism).count(private, b"".join(records)).values.tolist() == [
        1,
        0,
        1,
        1,
    ]


def test_manifest_of_several_messages() -> None:
    """It states people and messages, and its label has its version; the header has the number of messages."""
    stated, signer = _vectors()["several"], _vectors()["shuffler"]
    content = json.loads(stated["manifest"])
    signature = content.pop("signature")
    message = b"shoal manifest 2\n" + json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(signer["private_key"]))
    key.public_key().verify(bytes.fromhex(signature), message)
    digest = hashlib.sha256(bytes.fromhex("".join(stated["records"]))).hexdigest()
    assert content == {
        "format": "shoal manifest 2",
        "messages": 5,
        "record_bytes": 64,
        "reports": 3,
        "round": stated["round"],
        "sha256": digest,
        "task": stated["task_id"],
    }
    assert bytes.fromhex(stated["file"])[56:64] == (5).to_bytes(8, "big")
    manifest = Manifest.verified(stated["manifest"].encode(), _task(stated["task_id"]), stated["round"])
    assert (manifest.reports, manifest.messages, manifest.file_bytes) == (3, 5, len(bytes.fromhex(stated["file"])))


def test_what_a_helper_sends() -> None:
    """The key, the hash of the body, and a signature over a label, the task, the round and that hash."""
    stated = _vectors()["helper"]
    task = Task.from_bytes(stated["task"].encode(), pinned=stated["task_id"])
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(stated["private_key"]))
    assert json.loads(stated["task"])["format"] == "shoal task 2"
    assert json.loads(stated["task"])["helper_keys"] == [key.public_key().public_bytes_raw().hex()]
    for number, body, given in (
        (stated["round"], bytes.fromhex(stated["body"]), stated["authorization"]),
        (0, b"", stated["asking"]),
    ):
        scheme, public, digest, signature = given.split(" ")
        assert (scheme, public) == ("Helper", key.public_key().public_bytes_raw().hex())
        assert digest == hashlib.sha256(body).hexdigest()
        message = b"shoal dummies 1\n" + bytes.fromhex(stated["task_id"]) + number.to_bytes(8, "big")
        key.public_key().verify(bytes.fromhex(signature), message + bytes.fromhex(digest))
        assert proven(given, task, number) == (0, bytes.fromhex(digest))


def test_lists_of_a_search() -> None:
    """What is signed is a label and the list without its signature; each names the one before by its hash."""
    stated = _vectors()["hunt"]
    task = Task.from_bytes(stated["task"].encode(), pinned=stated["task_id"])
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(stated["private_key"]))
    previous, before = stated["task_id"], None
    for number, text in enumerate(stated["lists"], start=1):
        content = json.loads(text)
        signature = content.pop("signature")
        message = b"shoal prefixes 1\n" + json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        key.public_key().verify(bytes.fromhex(signature), message)
        assert (content["round"], content["previous"], content["task"]) == (number, previous, task.id)
        before = PrefixList.verified(text.encode(), task, number, before)
        previous = hashlib.sha256(text.encode()).hexdigest()
    assert before is not None and before.kept == (103, 117)
    listed = [parent << 8 | low for parent in (103, 117) for low in range(256)]
    assert listed.index(int.from_bytes(stated["string"].encode(), "big")) + 1 == stated["category"]
    order, dimension = task.mechanism.categories - 1, stated["dimension"]
    assert (order**dimension - 1) // (order - 1) >= len(listed) + 1 > (order ** (dimension - 1) - 1) // (order - 1)
    size = -(-((order**dimension - 1) // (order - 1)).bit_length() // 8)  # the empty message is one more
    expected = bytes([1, 10]) + stated["message"].to_bytes(size, "little")
    assert bytes.fromhex(stated["plaintext"]) == expected + bytes(16 - len(expected))


def test_digest_and_tag() -> None:
    """A report is recognised by half of its SHA-256, a sender by half of an HMAC."""
    replay, token = _vectors()["replay"], _vectors()["token"]
    body = bytes.fromhex(replay["ciphertext"])
    assert record(body).digest.hex() == replay["digest"] == hashlib.sha256(body).hexdigest()[:32]
    assert token["listed"] == hashlib.sha256(token["token"].encode()).hexdigest()
    tag = hmac.new(bytes.fromhex(token["round_key"]), token["token"].encode(), hashlib.sha256).hexdigest()[:32]
    assert tag == token["tag"]


@pytest.mark.slow
def test_hpke_of_this_module_is_that_of_the_standard() -> None:
    """RFC 9180, appendix A.1.1, from the shared secret to the first three messages."""
    ephemeral = bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736")
    private = bytes.fromhex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
    enc = bytes.fromhex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431")
    own, recipient = (X25519PrivateKey.from_private_bytes(each) for each in (ephemeral, private))
    assert (_raw(own), _raw(recipient).hex()[:16]) == (enc, "3948cfe0ad1ddb69")
    shared = _shared_secret(own.exchange(recipient.public_key()), enc, _raw(recipient))
    assert shared.hex() == "fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc"
    key, nonce = _key_and_nonce(shared, info := b"Ode on a Grecian Urn")
    assert (key.hex(), nonce.hex()) == ("4531685d41d65f03dc48f6b8302c05b0", "56d890e5accaaf011cff4b7d")
    text = b"Beauty is truth, truth beauty"
    for count, ciphertext in enumerate(
        (
            "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a",
            "af2d7e9ac9ae7e270f46ba1f975be53c09f8d875bdc8535458c2494e8a6eab251c03d0c22a56b8ca42c2063b84",
            "498dfcabd92e8acedc281e85af1cb4e3e31c7dc394a1ca20e173cb72516491588d96a19ad4a683518973dcc180",
        )
    ):
        turned = nonce[:-1] + bytes([nonce[-1] ^ count])
        assert AESGCM(key).encrypt(turned, text, b"Count-%d" % count).hex() == ciphertext
    assert _opened(private, info, _sealed(ephemeral, _raw(recipient), info, text)) == text


if __name__ == "__main__":
    _PATH.write_text(_made())
