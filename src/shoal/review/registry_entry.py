"""An entry for OpenDP's registry of deployments: what is known is filled in, and the rest says that people have to.

The fields are those of its schema of July 2026 (opendp/deployments-registry-data, schemas/deployments-schema.yaml).
"""

import json
import re
from datetime import date
from typing import Any

from shoal.assumptions import COLLUDE
from shoal.documentation import linked
from shoal.errors import ParameterError
from shoal.proofs.certificate import Certificate
from shoal.review.review_document import Review

_OPEN = "TO FILL IN"


def registry_entry(review: Review, *, training: bool = False, many: bool = False) -> dict[str, Any]:
    """Return the entry for a review."""
    if not review.certificates:
        raise ParameterError("an entry has only numbers that are proved, and this review has no certificate")
    certificate = Certificate.from_json(review.certificates[0])
    proof = certificate.to_dict()
    slug = re.sub(r"[^a-z0-9]+", "_", review.title.lower()).strip("_")[:80].strip("_") or "deployment"
    model = _CENTRAL if training else _MESSAGES if COLLUDE in certificate.claim.assumptions else _SHUFFLE
    if training and proof["claim"].get("noise") == "example" and proof["claim"].get("releases") == "every-step":
        raise ParameterError(
            "people noised their own gradients in this training, and an entry is written of a model that was trained "
            "by whoever sees the data"
        )
    many_releases = {
        "release_type": "Many releases" if many else "One release",
        "release_type_details": f"{_OPEN}: what else the same data is used for, and when the budget begins anew.",
        "data_source_type": "Dynamic" if many else "Static",
        "data_source_type_details": f"{_OPEN}: over which time the data came in.",
        "access_type": "Non-interactive",
        "access_type_details": "What is published is computed once, and nobody asks for more.",
    }
    if training:
        composition = "Every step of the training is in ε, by the theorem above."
    elif many:
        composition = "All rounds together are in ε: the distributions of their privacy losses, convolved, rounded up."
    else:
        composition = "ε is that of one round; a further round with the same people costs more."
    return {
        "url_slug": slug,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": review.title,
                "data_curators": [f"{_OPEN}: who publishes it"],
                "intended_use": f"{_OPEN}: what it is for.",
                "data_product_type": "Machine learning model" if training else "Summary statistics",
                "data_product_region": f"{_OPEN}: which region it describes, and whose laws apply",
                "description": f"{review.title}. {_OPEN}: what is published.",
                "publication_date": date.today().isoformat(),
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": certificate.claim.subject,
                "unprotected_quantities": f"{model['unprotected']} {_OPEN}: what else.",
            },
            "privacy_loss": {
                "privacy_unit": _UNITS[proof["claim"]["adjacency"]] if training else model["unit"][many],
                "privacy_unit_details": f"ε holds if all of this does: {'; '.join(proof['assumptions'])}.",
                "privacy_parameters": {"epsilon": certificate.epsilon, "delta": certificate.delta},
                "privacy_parameters_details": (
                    f"Proved in ball arithmetic, with a certificate, by shoal {review.version}: "
                    f"{linked(proof['theorem'])}"
                ),
            },
            "deployment_model": {
                "model_name": model["name"],
                "model_name_details": model["details"],
                "actors": f"{model['actors']} {_OPEN}: who they are, and why they can be trusted with this.",
                **many_releases,
            },
            "accounting": {"post_processing": f"{_OPEN}: what is done with the results.", "composition": composition},
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": (
                    f"{_OPEN}: what was chosen by looking at data, and whether that was accounted for."
                ),
                "mechanisms": (
                    f"{certificate.claim.subject}. {_OPEN}: which program and version draws the randomness and adds "
                    "the noise; measures against timing, floating point and other leaks; who can see data before."
                ),
                "justification": (
                    f"ε was proved, and the proof can be repeated from the review by `shoal verify`. {_OPEN}: why this "
                    "ε, and who decided."
                ),
            },
            "administrative": {
                "sources": f"{_OPEN}: links to what is published, and to the review.",
                "notes": "Drafted from a review by shoal; what people have to add is marked.",
                "registry_authors": [f"{_OPEN}: who fills in this entry"],
            },
        },
    }


_SHUFFLE: dict[str, Any] = {
    "name": "Shuffle",
    "details": "People randomize their reports, a shuffler permutes them, and the curator sees what it passes on.",
    "unit": ("one person's report in one round", "one person's reports in all rounds"),
    "unprotected": "Who takes part, and how many.",
    "actors": (
        "People randomize on their devices. The shuffler knows who reports, and is assumed not to work together with "
        "the curator. The curator, and everybody else, sees shuffled reports or less."
    ),
}
_MESSAGES: dict[str, Any] = _SHUFFLE | {
    "details": (
        "People send messages that hide among others, which they or the shuffler add; the shuffler permutes all of "
        "them, and the curator sees what it passes on."
    ),
    "actors": (
        "The shuffler knows who sends messages. It is assumed not to work together with the curator: nothing would "
        "remain then, unless people randomize too. The curator, and everybody else, sees shuffled messages or less."
    ),
}
_CENTRAL: dict[str, Any] = {
    "name": "Central",
    "details": "Whoever trains the model sees the data; everybody else sees the model, or any model on the way to it.",
    "unprotected": "Losses, times and sizes of batches, if they are shown.",
    "actors": "Whoever trains sees all of the data, and keeps random bits secret. Everybody else sees models.",
}
_UNITS = {
    "replace": "one example of the training data, replaced by another",
    "zero-out": "one example of the training data, left out of its batches, its slots empty",
    "add-remove": "one example of the training data, added or removed",
}
"""By the neighbours of a training."""


def registry_text(entry: dict[str, Any]) -> str:
    """Return an entry as JSON that YAML reads alike: there 1e-06 is a text, and 1.0e-06 a number."""
    text = json.dumps(entry, indent=2, ensure_ascii=False) + "\n"
    return re.sub(r'^( +"(?:epsilon|delta)": \d+)(e[-+]\d+)', r"\1.0\2", text, flags=re.MULTILINE)
