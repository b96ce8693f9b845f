"""CustomResourceDefinitions: their kinds are served as long as the definition exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .clock import now
from .resources import Resource
from .schema import Schema, apply_defaults, check, check_rules, check_unique, rules, unreadable_rules
from .status import Cause
from .strategies import Strategy

if TYPE_CHECKING:
    from .store import Store

Object = dict[str, Any]

GROUP = "apiextensions.k8s.io"

_BEFORE_RULES = frozenset(
    ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)
"""Errors because of which an object's rules are not evaluated."""
_UNASKED = (
    Cause(
        "FieldValueInvalid",
        "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
        "existing errors to complete validation",
        "<nil>",
    ),
)


class DefinitionStrategy(Strategy):
    """Definitions: accepted and established at once."""

    status = True

    def default(self, obj: Object) -> None:
        """Fill in names that follow from other names."""
        spec = obj.get("spec") or {}
        names = spec.get("names") or {}
        kind = names.get("kind", "")
        names.setdefault("listKind", f"{kind}List")
        names.setdefault("singular", kind.lower())
        spec.setdefault("conversion", {"strategy": "None"})

    def prepare_create(self, obj: Object) -> None:
        """Establish the definition at once."""
        since = now()
        conditions = [
            {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since}
            for kind, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ]
        versions = [version["name"] for version in obj["spec"].get("versions") or () if version.get("storage")]
        obj["status"] = {
            "acceptedNames": obj["spec"].get("names") or {},
            "conditions": conditions,
            "storedVersions": versions,
        }

    def causes(self, obj: Object, old: Object | None) -> list[Cause]:
        """Check what is needed to serve the kind."""
        found = super().causes(obj, old)
        spec = obj.get("spec") or {}
        names = spec.get("names") or {}
        wanted = f"{names.get('plural')}.{spec.get('group')}"
        if obj["metadata"].get("name") != wanted:
            found.append(Cause.invalid("metadata.name", obj["metadata"].get("name"), f"must be {wanted}"))
        if spec.get("scope") not in {"Namespaced", "Cluster"}:
            found.append(Cause.unsupported("spec.scope", spec.get("scope"), ["Cluster", "Namespaced"]))
        if not names.get("kind"):
            found.append(Cause.required("spec.names.kind"))
        if not any(version.get("served") for version in spec.get("versions") or ()):
            found.append(Cause.invalid("spec.versions", spec.get("versions"), "must have a served version"))
        for number, version in enumerate(spec.get("versions") or ()):
            schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            where = f"spec.versions[{number}].schema.openAPIV3Schema"
            found += [Cause("FieldValueInvalid", f"Invalid value: {why}", where) for why in unreadable_rules(schema)]
        return found


class CustomStrategy(Strategy):
    """Objects of a defined kind: defaulted and validated by its schema.

    Parameters
    ----------
    schema
        The structural schema of the version.
    status
        Whether the kind has a status subresource.
    """

    def __init__(self, schema: Schema, *, status: bool) -> None:
        self._schema = schema
        self.status = status

    def default(self, obj: Object) -> None:
        """Fill in defaults."""
        apply_defaults(self._schema, obj)

    def causes(self, obj: Object, old: Object | None) -> list[Cause]:
        """Check metadata and schema, and the rules unless other errors prevent their evaluation."""
        found = [*super().causes(obj, old), *check(self._schema, obj, root=True)]
        found += check_unique(self._schema, obj, root=True)
        if not {cause.reason for cause in found} & _BEFORE_RULES:
            return [*found, *check_rules(self._schema, obj, old, root=True)]
        return [*found, *_UNASKED] if any(rules(self._schema)) else found


DEFINITIONS = Resource(
    group=GROUP,
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources={"status": "CustomResourceDefinition"},
    strategy=DefinitionStrategy(),
    generation=True,
)


def defined(store: Store) -> list[Resource]:
    """Return a row for every served version of every definition in the store."""
    rows = []
    for entry in store.named(DEFINITIONS.storage).entries.values():
        spec = entry.thaw()["spec"]
        names = spec["names"]
        rows += [_row(spec, names, version) for version in spec["versions"] if version.get("served")]
    return rows


def _row(spec: Object, names: Object, version: Object) -> Resource:
    has_status = "status" in (version.get("subresources") or {})
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources={"status": names["kind"]} if has_status else {},
        schema=schema,
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        merge_keys=None,  # custom resources know no strategic merge patch
        strategy=CustomStrategy(schema, status=has_status),
        generation=True,
        unconditional_update=False,
    )
