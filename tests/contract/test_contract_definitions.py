"""CustomResourceDefinitions: kinds come and go with them, and their schemas are followed."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from tests.contract.client import Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
                "colour": {"type": "string", "enum": ["red", "green"]},
                "amount": {"x-kubernetes-int-or-string": True},
                "parts": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
                },
                "weights": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
        },
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
    },
}


class Kind:
    """A kind of its own for one test."""

    def __init__(self, api: Api) -> None:
        word = f"w{uuid.uuid4().hex[:8]}"
        self.api, self.group, self.plural = api, f"{word}.example.com", f"{word}s"
        self.name = f"{self.plural}.{self.group}"
        self.path = f"/apis/{self.group}/v1/namespaces/{api.namespace}/{self.plural}"
        self.kind = word.capitalize()

    async def define(self) -> None:
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": SCHEMA},
        }
        names = {"plural": self.plural, "kind": self.kind, "shortNames": ["x" + self.plural]}
        spec = {"group": self.group, "scope": "Namespaced", "names": names, "versions": [version]}
        (await self.api.post(CRDS, {"metadata": {"name": self.name}, "spec": spec})).created()
        await self.until(200)

    async def until(self, code: int) -> None:
        """Wait until the kind is served, or is not any more."""
        async with asyncio.timeout(20):
            while (await self.api.get(self.path)).code != code:
                await asyncio.sleep(0.05)

    def object(self, name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"{self.group}/v1", "kind": self.kind, "metadata": {"name": name}, "spec": spec, **more
        }  # fmt: skip


@pytest_asyncio.fixture
async def kind(api: Api) -> AsyncIterator[Kind]:
    made = Kind(api)
    await made.define()
    yield made
    await api.delete(f"{CRDS}/{made.name}")


async def test_a_definition_is_established_and_discovered(kind: Kind) -> None:
    definition = (await kind.api.get(f"{CRDS}/{kind.name}")).ok()
    conditions = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
    assert conditions["Established"] == "True"
    listed = (await kind.api.get(f"/apis/{kind.group}/v1")).ok()["resources"]
    assert {row["name"] for row in listed} == {kind.plural, f"{kind.plural}/status"}


async def test_defaults_are_filled_in_and_unknown_fields_dropped(kind: Kind) -> None:
    spec = {"colour": "red", "unknown": 1, "parts": [{"name": "a", "more": 2}], "amount": "4Gi", "weights": {"k": 1}}
    made = (await kind.api.post(kind.path, kind.object("a", spec, status={"seen": 7}))).created()
    assert made["spec"] == {
        "colour": "red", "size": 3, "parts": [{"name": "a"}], "amount": "4Gi", "weights": {"k": 1}
    }  # fmt: skip
    assert "status" not in made
    assert made["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"size": 0}, "spec.size"),
        ({"size": 10}, "spec.size"),
        ({"size": "3"}, "spec.size"),
        ({"colour": "blue"}, "spec.colour"),
        ({"amount": True}, "spec.amount"),
        ({"parts": [{"name": "a"}] * 3}, "spec.parts"),
        ({"parts": [{}]}, "spec.parts[0].name"),
        ({"weights": {"k": "heavy"}}, "spec.weights"),
        ({"parts": {}}, "spec.parts"),
    ],
)
async def test_what_the_schema_forbids_is_refused_with_the_field(kind: Kind, spec: dict[str, Any], field: str) -> None:
    answer = await kind.api.post(kind.path, kind.object("bad", spec))
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert any(cause["field"].startswith(field) for cause in answer.body["details"]["causes"]), answer.message


async def test_a_missing_spec_is_refused(kind: Kind) -> None:
    body = kind.object("bad", {})
    del body["spec"]
    assert (await kind.api.post(kind.path, body)).code == 422


async def test_status_is_written_through_its_subresource_only(kind: Kind) -> None:
    await kind.api.post(kind.path, kind.object("a", {"size": 2}))
    path = f"{kind.path}/a"
    await kind.api.merge(path, {"status": {"seen": 1}})
    assert "status" not in (await kind.api.get(path)).ok()
    patched = (await kind.api.merge(f"{path}/status", {"status": {"seen": 1}, "spec": {"size": 9}})).ok()
    assert (patched["status"], patched["spec"]["size"]) == ({"seen": 1}, 2)
    assert patched["metadata"]["generation"] == 1
    changed = (await kind.api.merge(path, {"spec": {"size": 4}})).ok()
    assert (changed["metadata"]["generation"], changed["status"]) == (2, {"seen": 1})


async def test_custom_resources_know_no_strategic_merge(kind: Kind) -> None:
    await kind.api.post(kind.path, kind.object("a", {}))
    assert (await kind.api.strategic(f"{kind.path}/a", {"spec": {"size": 1}})).code == 415


async def test_objects_go_with_their_definition(kind: Kind) -> None:
    await kind.api.post(kind.path, kind.object("a", {}))
    (await kind.api.delete(f"{CRDS}/{kind.name}")).ok()
    await kind.until(404)
    await kind.define()
    assert (await kind.api.get(kind.path)).ok()["items"] == []
