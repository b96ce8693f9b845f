"""The verbs: create, get, update, patch and delete, over the store.

Everything here is synchronous, so each request is one transaction. Refusals are raised as :class:`~.status.ApiError`;
answers are the status code and the body.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import managed_fields, patches, status
from .clock import generated, now
from .objects import Target, check_kind, drop_unknown, list_body, render, show, stored_form, tidy, uid_mismatch
from .resources import NAMESPACES, Resource
from .shapes import shape_of
from .store import Entry, Object, Store, encode
from .validation import untyped_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .selectors import Selector

Answer = tuple[int, bytes]

_KEPT = ("namespace", "resourceVersion", "generateName")
_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Grace period and preconditions of a deletion."""

    grace: int | None = None
    uid: str = ""
    revision: str = ""
    dry_run: bool = False

    @classmethod
    def parse(cls, body: Object) -> DeleteOptions:
        """Parse a ``DeleteOptions`` object."""
        preconditions = body.get("preconditions") or {}
        grace = body.get("gracePeriodSeconds")
        return cls(
            grace=None if grace is None else int(grace),
            uid=preconditions.get("uid") or "",
            revision=preconditions.get("resourceVersion") or "",
            dry_run="All" in (body.get("dryRun") or ()),
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write.

    Attributes
    ----------
    dry_run
        Nothing is stored.
    manager
        The field manager that owns the changed fields.
    force
        Whether an apply takes over fields of other managers.
    validation
        ``Strict`` refuses unknown fields, ``Warn`` reports them; they are dropped in any case.
    warnings
        Warnings for the client.
    """

    dry_run: bool = False
    manager: str = "unknown"
    force: bool = False
    validation: str = "Ignore"
    warnings: list[str] = field(default_factory=list)


DEFAULTS = WriteOptions()


@dataclass(slots=True)
class Registry:
    """The verbs over one store."""

    store: Store

    # ------------------------------------------------------------------------------------------------ read

    def get(self, target: Target) -> Answer:
        """Return one object."""
        return 200, render(target.resource, self.existing(target))

    def existing(self, target: Target) -> Entry:
        """Return the current revision, or refuse with 404."""
        entry = self.store.get(target.resource, target.namespace, target.name)
        if entry is None:
            raise status.not_found(target.resource, target.name)
        return entry

    # ------------------------------------------------------------------------------------------------ create

    def create(
        self, target: Target, obj: Object, options: WriteOptions = DEFAULTS, managed: Sequence[Object] = ()
    ) -> Answer:
        """Create an object; ``managed`` has the owners of its fields if they are tracked."""
        resource, strategy = target.resource, target.resource.strategy
        check_kind(resource, obj)
        obj = _known(resource, obj, options, _cannot_handle(resource))
        metadata = obj["metadata"]
        self._place(target, metadata)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = generated(metadata["generateName"])
        self._check_namespace(resource, target.namespace, metadata.get("name", ""))
        default(resource, obj, _cannot_handle(resource))
        if message := untyped_metadata(metadata):
            raise status.bad_request(f"{_cannot_handle(resource)(message).message}")
        if message := strategy.admit(obj, self._lookup):
            raise status.forbidden(resource, metadata.get("name", ""), message)
        strategy.prepare_create(obj)
        for key in _SERVER_OWNED:
            metadata.pop(key, None)
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
        if resource.generation:
            metadata["generation"] = 1
        metadata["managedFields"] = list(managed)
        tidy(metadata)
        if causes := strategy.causes(obj, None):
            raise status.invalid(resource, metadata.get("name", ""), causes)
        if self.store.get(resource, target.namespace, metadata["name"]) is not None:
            raise status.already_exists(resource, metadata["name"])
        if options.dry_run:
            return 201, show(resource, obj)
        return 201, render(resource, self.store.put(resource, obj, None))

    def _place(self, target: Target, metadata: Object) -> None:
        if metadata.pop("resourceVersion", ""):
            raise status.ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if not target.resource.namespaced:
            metadata.pop("namespace", None)
            return
        if metadata.get("namespace", target.namespace) not in {target.namespace, ""}:
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise status.bad_request(text)
        metadata["namespace"] = target.namespace

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        entry = self.store.get(NAMESPACES, "", namespace)
        if entry is None:
            raise status.not_found(NAMESPACES, namespace)
        if entry.fields["status.phase"] == "Terminating":
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            message = f"namespace {namespace} is being terminated"
            cause = status.Cause("NamespaceTerminating", message, "metadata.namespace")
            raise status.forbidden(resource, name, text, [cause])

    def _lookup(self, table: str) -> list[Object]:
        return [entry.thaw() for entry in self.store.named(table).entries.values()]

    # ------------------------------------------------------------------------------------------------ update

    def replace(self, target: Target, obj: Object, options: WriteOptions = DEFAULTS) -> Answer:
        """Replace an object (PUT)."""
        resource = target.resource
        check_kind(resource, obj)
        obj = _known(resource, obj, options, _cannot_handle(resource))
        if message := untyped_metadata(obj["metadata"]):
            raise status.bad_request(_cannot_handle(resource)(message).message)
        if obj["metadata"].get("name") != target.name:
            raise status.bad_request(_name_mismatch(obj["metadata"].get("name", ""), target.name))
        entry = self.existing(target)
        if not obj["metadata"].get("resourceVersion") and not resource.unconditional_update:
            cause = status.Cause.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            error = status.invalid(resource, target.name, [cause])
            error.message = error.message.replace(resource.kind, resource.plural, 1)
            raise error
        uid = obj["metadata"].get("uid")
        if uid and uid != entry.uid:
            raise status.conflict(resource, target.name, uid_mismatch(target, entry, uid))
        default(resource, obj, _cannot_handle(resource))
        return self.write(target, entry, obj, options)

    def patch(self, target: Target, content_type: str, body: patches.Json, options: WriteOptions = DEFAULTS) -> Answer:
        """Change a part of an object."""
        resource = target.resource
        entry = self.existing(target)
        obj = entry.thaw() if resource.outbound is None else resource.outbound(entry.thaw())
        if content_type == patches.JSON:
            patches.json_patch(obj, body)
        elif content_type == patches.MERGE:
            patches.merge(obj, body)
        elif resource.merge_keys is not None:
            patches.strategic(obj, body, resource.merge_keys)
        obj = _known(resource, obj, options, status.unreadable_patch)
        message = untyped_metadata(obj["metadata"])
        if message:
            raise status.unreadable_patch(message)
        if obj["metadata"].get("name") != target.name:
            raise status.bad_request(_name_mismatch(obj["metadata"].get("name", ""), target.name))
        default(resource, obj, status.unreadable_patch)
        return self.write(target, entry, obj, options)

    def write(
        self, target: Target, entry: Entry, obj: Object, options: WriteOptions, *, tracked: bool = False
    ) -> Answer:
        """Write an object as its next revision, restoring what this kind of write may not change.

        Parameters
        ----------
        tracked
            Whether the object's own ``managedFields`` are kept as they are.
        """
        resource, metadata = target.resource, obj["metadata"]
        revision = metadata.get("resourceVersion")
        if revision and revision != str(entry.revision):
            raise status.conflict(resource, target.name)
        old = entry.thaw()
        resource.strategy.prepare_update(obj, old, target.subresource)
        causes = resource.strategy.causes(obj, old)
        if causes:
            raise status.invalid(resource, target.name, causes)
        for key in (*_SERVER_OWNED, *(() if tracked else ("managedFields",)), *_KEPT):
            if key in old["metadata"]:
                metadata[key] = old["metadata"][key]
            else:
                metadata.pop(key, None)
        tidy(metadata)
        if obj == old:  # a write without a change creates no revision and no event
            return 200, render(resource, entry)
        if not tracked and "managedFields" in metadata:
            manager = managed_fields.Manager(options.manager, managed_fields.UPDATE, target.subresource)
            metadata["managedFields"] = _owned_after(resource, manager, old, obj)
        if resource.generation and obj.get("spec") != old.get("spec"):
            metadata["generation"] = metadata.get("generation", 0) + 1
        if options.dry_run:
            return 200, show(resource, obj)
        if _finalized(metadata):
            self.store.remove(resource, entry)
            return 200, show(resource, obj)
        return 200, render(resource, self.store.put(resource, obj, entry))

    # ------------------------------------------------------------------------------------------------ delete

    def delete(self, target: Target, options: DeleteOptions) -> Answer:
        """Delete an object, or mark it if a kubelet or the owners of finalizers have to act first."""
        resource, entry = target.resource, self.existing(target)
        _check_preconditions(target, entry, options)
        obj = entry.thaw()
        metadata = obj["metadata"]
        grace = resource.strategy.grace(obj, options.grace)
        if options.dry_run:
            return 200, encode(obj)
        if grace is not None:
            entry = self._mark(resource, entry, obj, grace)
            if grace > 0 or metadata.get("finalizers") or metadata["deletionGracePeriodSeconds"] > 0:
                return 200, entry.raw
        elif metadata.get("finalizers") or resource is NAMESPACES:
            return 200, self._mark(resource, entry, obj, None).raw
        last = self.store.remove(resource, entry)
        if grace is not None:
            return 200, last.raw
        return 200, encode(status.success(200, status.details(resource, entry.name, uid=entry.uid)))

    def _mark(self, resource: Resource, entry: Entry, obj: Object, grace: int | None) -> Entry:
        """Set the deletion timestamp; a later deletion may only shorten the grace period."""
        metadata = obj["metadata"]
        marked = "deletionTimestamp" in metadata
        if marked and (grace is None or grace >= metadata["deletionGracePeriodSeconds"]):
            return entry
        metadata["deletionTimestamp"] = now(grace or 0)
        if resource is NAMESPACES:
            obj["status"]["phase"] = "Terminating"
        else:
            metadata["deletionGracePeriodSeconds"] = grace or 0
        if not marked and "generation" in metadata:
            metadata["generation"] += 1
        return self.store.put(resource, obj, entry)

    def delete_collection(self, target: Target, selector: Selector, options: DeleteOptions) -> Answer:
        """Delete all objects that a selector selects, and return them."""
        resource = target.resource
        selected = self.store.select(resource, selector)
        for entry in selected:
            self.delete(Target(resource, entry.namespace, entry.name), options)
        return 200, list_body(resource, self.store.revision, selected)


def _owned_after(resource: Resource, manager: managed_fields.Manager, old: Object, new: Object) -> list[Object]:
    """Return the owners of fields after a write other than an apply."""
    shape, metadata = shape_of(resource), old["metadata"]
    owned = managed_fields.read(metadata)
    owned = managed_fields.after_update(owned, manager, shape.leaves(old), shape.leaves(new))
    return managed_fields.write(owned, metadata["managedFields"], resource.api_version, now())


def _known(resource: Resource, obj: Object, options: WriteOptions, refusal: Callable[[str], status.ApiError]) -> Object:
    """Return an object in the stored form, without the fields that its kind does not have."""
    unknown = [f'unknown field "{path}"' for path in drop_unknown(resource, obj)]
    if unknown and options.validation == "Strict":
        raise refusal(f"strict decoding error: {', '.join(unknown)}")
    if options.validation == "Warn":
        options.warnings.extend(unknown)
    return stored_form(resource, obj)


def default(resource: Resource, obj: Object, refusal: Callable[[str], status.ApiError]) -> None:
    """Fill in the defaults of an object, or refuse it if it cannot be read."""
    try:
        resource.strategy.default(obj)
    except (ValueError, TypeError, AttributeError) as error:
        raise refusal(str(error)) from error


def _cannot_handle(resource: Resource) -> Callable[[str], status.ApiError]:
    def refusal(message: str) -> status.ApiError:
        text = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {message}'
        return status.bad_request(text)

    return refusal


def _name_mismatch(given: str, expected: str) -> str:
    return f"the name of the object ({given}) does not match the name on the URL ({expected})"


def _check_preconditions(target: Target, entry: Entry, options: DeleteOptions) -> None:
    checks = (("UID", options.uid, entry.uid), ("ResourceVersion", options.revision, str(entry.revision)))
    for label, wanted, found in checks:
        if wanted and wanted != found:
            text = (
                f"the {label} in the precondition ({wanted}) does not match the {label} in record ({found}). "
                "The object might have been deleted and then recreated"
            )
            message = f'Operation cannot be fulfilled on {target.resource.kind} "{target.name}": {text}'
            kind = {"name": target.name, "kind": target.resource.kind}
            raise status.ApiError(409, "Conflict", message, kind)


def _finalized(metadata: Object) -> bool:
    """Tell whether nothing holds a deleted object any more: no finalizer, and no kubelet's grace period."""
    deleted = "deletionTimestamp" in metadata and "deletionGracePeriodSeconds" in metadata
    return deleted and not metadata.get("finalizers") and metadata["deletionGracePeriodSeconds"] == 0
