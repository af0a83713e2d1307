"""What OpenDP's schema of July 2026 demands of an entry, as far as entries of shoal go.

The schema (opendp/deployments-registry-data, schemas/deployments-schema.yaml) has more fields that may be left out.
"""

import re
from typing import Any

_TEXTS = {
    "": "url_slug",
    "deployment.basic.": "name intended_use data_product_region description",
    "deployment.dp_variant.": "data_domain unprotected_quantities",
    "deployment.privacy_loss.": "privacy_unit privacy_unit_details privacy_parameters_details",
    "deployment.deployment_model.": (
        "model_name_details actors release_type_details data_source_type_details access_type_details"
    ),
    "deployment.accounting.": "post_processing composition",
    "deployment.implementation.": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "deployment.administrative.": "sources notes",
}
_LISTS = ("deployment.basic.data_curators", "deployment.administrative.registry_authors")
_NUMBERS = tuple(f"deployment.privacy_loss.privacy_parameters.{name}" for name in ("epsilon", "delta"))
_DAY = "deployment.basic.publication_date"
_CHOICES: dict[str, tuple[object, ...]] = {
    "status": ("Draft", "Pending", "Approved"),
    "tier": (1, 2, 3),
    "deployment.basic.data_product_type": ("Summary statistics", "Machine learning model"),
    "deployment.dp_variant.variant_name": ("Pure DP", "Approximate DP"),
    "deployment.deployment_model.model_name": ("Local", "Central", "Shuffle"),
    "deployment.deployment_model.release_type": ("One release", "Many releases"),
    "deployment.deployment_model.data_source_type": ("Static", "Dynamic"),
    "deployment.deployment_model.access_type": ("Interactive", "Non-interactive"),
}


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    parts = [_leaves(each, f"{path}.{name}" if path else name) for name, each in value.items()]
    return {name: each for part in parts for name, each in part.items()}


def wrong_fields(entry: Any) -> list[str]:
    """Return which fields of an entry are missing, unknown, or not of the kind or among the choices of the schema."""
    texts = {f"{path}{name}": str for path, names in _TEXTS.items() for name in names.split()}
    kinds = texts | dict.fromkeys(_LISTS, list) | dict.fromkeys(_NUMBERS, float) | {_DAY: str}
    found = _leaves(entry)
    wrong = sorted(found.keys() ^ (kinds.keys() | _CHOICES.keys()))
    wrong += [name for name, kind in kinds.items() if name in found and type(found[name]) is not kind]
    wrong += [name for name, choices in _CHOICES.items() if name in found and found[name] not in choices]
    wrong += [name for name in _LISTS if not all(isinstance(part, str) for part in found.get(name) or [None])]
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", str(found.get(_DAY))):
        wrong.append(_DAY)
    return wrong
