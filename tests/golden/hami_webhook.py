"""Golden cases of HAMi's admission webhook: what became of a pod, product against twin against HAMi.

Quantities are compared by what they are worth. HAMi also tells what it reads in the pod that it completed; that is held
against the twin alone, because how requests are read has suites of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.golden import hami_vendors
from tests.golden.hami import as_reported, quotas_of, state_of
from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.naive.hami_quirks import NONE
from tests.naive.vendors.quirks import ALL as ALL_OF_VENDORS
from tests.naive.webhook.quirks import ALL
from tests.naive.webhook.review import review as naive_review

from vgpu_scheduler.admission import AdmissionRules, review
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.hami import VendorSection, configured, hami_dialect
from vgpu_scheduler.kube import to_milli

Json = Any

_FORCED = "forceOverwriteDefaultScheduler"


def runs(case: Case) -> bool:
    """Tell whether a case is one of these."""
    return bool(case.get("op") == "webhook")


def run_case(case: Case) -> Outcome:
    """Review the pod of a case and compare."""
    case = as_reported(case)
    theirs, asked = naive_review(case, ALL)
    ours, asked_too = naive_review(case, NONE)
    expected = {key: value for key, value in case["expect"].items() if key != "requests"}
    found = list(differences("twin", comparable(expected), comparable(theirs)))
    found += _against_requests(case, theirs)
    found += differences("product", comparable(ours), comparable(product(case)))
    if found:
        return Outcome("failed", "; ".join(found))
    quirks = responsible(theirs, ours, lambda some: naive_review(case, some)[0], asked | asked_too, ALL)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def product(case: Case) -> Json:
    """What the product says about the pod of a case."""
    dialect, config = dialect_of(case), case["config"]
    name = config.get("schedulerName", "hami-scheduler")
    rules = AdmissionRules(Dialects([dialect]), (name,) if name else (), config.get(_FORCED, True))
    state = state_of({"nodes": [], "pods": [], **case}, dialect)
    quotas = quotas_of(case, dialect)
    before = copy.deepcopy(case["pod"])
    verdict = review(
        case["pod"],
        before["metadata"]["namespace"],
        rules,
        lambda n, claims: "" if quotas.refuses(n, claims, state) else None,
    )
    assert case["pod"] == before, "the pod that came in was changed"
    if verdict.pod is None:
        return {"allowed": False, "code": verdict.code, "message": verdict.message}
    assert verdict.changed == (verdict.pod != before)
    again = review(verdict.pod, before["metadata"]["namespace"], rules)
    assert not again.changed, "a second review changes the pod again"
    told = {"message": verdict.message} if verdict.message else {}
    return {"allowed": True, "pod": verdict.pod, **told}


def dialect_of(case: Case) -> hami_dialect:
    """The dialect as the configuration of a case sets it; whole cards are HAMi 2.10's."""
    config = copy.deepcopy(case["config"]["deviceConfig"])
    if "nvidia" in config:
        config["nvidia"]["wholeIsExclusive"] = True
    return hami_dialect(configured(VendorSection(config), others=False))


def comparable(answer: Json) -> Json:
    """Return an answer with quantities as numbers, and without the empty fields that Go writes."""
    answer = copy.deepcopy(answer)
    spec = (answer.get("pod") or {}).get("spec") or {}
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        for kind, amounts in (container.get("resources") or {}).items():
            container["resources"][kind] = {name: to_milli(text) for name, text in (amounts or {}).items()}
    return answer


def _against_requests(case: Case, theirs: Json) -> Iterator[str]:
    if "requests" in case["expect"]:
        twin = hami_vendors.KINDS["requests"].twin({**case, "pod": theirs["pod"]}, ALL_OF_VENDORS)[0]
        yield from differences("twin.requests", case["expect"]["requests"], twin["requests"])
