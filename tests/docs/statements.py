"""Finds what a page states wrongly: each thing in backticks, each panel and each amount is held against what there is.

What none of the checks knows is wrong, too: a page states nothing that no program looks at, but for the few words in
:data:`NOT_OURS`, which Kubernetes and HAMi define.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import BaseModel, ValidationError

from vgpu_devcluster.resources import BUILT_IN
from vgpu_scheduler.binding.lanes import SLOW_AFTER
from vgpu_scheduler.binding.overdue import GIVEN_UP_AFTER
from vgpu_scheduler.cli import main, top
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.engine import OVERDUE_AFTER
from vgpu_scheduler.engine.assumed import MOST_MOVES
from vgpu_scheduler.model import CardReason, ConditionReason, EventReason
from vgpu_scheduler.policy import NO_GROUP_RULES, POLICY_KINDS
from vgpu_scheduler.policy.models import ClusterVGPUPolicySpec
from vgpu_scheduler.runtime.replica import PATIENCE
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.telemetry.catalogue import METRICS
from vgpu_scheduler.whatif import make_dialect

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
RULES = yaml.safe_load((MANIFESTS / "monitoring" / "rules.yaml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["spec"]["groups"] for rule in group["rules"]}
DASHBOARD = (MANIFESTS / "monitoring" / "dashboard.yaml").read_text()
SOURCES = "\n".join(path.read_text() for path in (ROOT / "operator").rglob("*.py"))
POD_FIELDS = json.loads((ROOT / "operator" / "vgpu_scheduler" / "whatif" / "objects" / "pod_fields.json").read_text())
DIALECTS = Dialects([make_dialect(name) for name in ("hami", "volcano", "koordinator")])
INSTALLED = list(yaml.safe_load_all((MANIFESTS / "install.yaml").read_text()))

SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
PANEL = re.compile(r"(?:panels?|and) \*([^*]+)\*")
AMOUNT = re.compile(
    r"(?:\d+|\b(?:one|two|three|four|five|six|ten|twenty|thirty|a hundred|a quarter|half an|a tenth|an|several)\b)"
    r"\s(?:seconds?|minutes?|hours?|ms|percent|times|in\s(?:ten|twenty)|of an hour|hour|pods|of the binds)\b"
)
SETTING = re.compile(r"([a-z_.]+): (\S+)")
NOT_OURS = {
    "kubernetes": "resources maxPods nodeName nodeAffinity matchFields status.declaredFeatures Insufficient Ready "
    "UnexpectedAdmissionError OutOfcpu failurePolicy: Ignore selector pods/binding get list False true false "
    "apiserver_request_duration_seconds apiserver_admission_webhook_admission_duration_seconds maxSkew hostPort "
    "spec.nodeName PodScheduled",
    "nvidia": "nvidia.com/mig-1g.5gb",
    "volcano": "networkTopology",
    "shown": "yes allow reason other failed expired limits.<resource> kopf for … ended",
}
VERBS = {
    "get": {"-n", "-A", "-o", "-w", "-l", "--field-selector", "--show-labels"},
    "describe": {"-n"},
    "logs": {"-n", "-c", "-p", "--since"},
    "top": {"-n", "--containers"},
    "auth": {"-n", "--as"},
    "annotate": {"-n"},
    "cordon": set(),
    "uncordon": set(),
}
"""kubectl's verbs that a page may name, with their flags."""
SWITCHES = {"-A", "--show-labels", "--containers", "-w", "-p"}
SELECTABLE = {name: set(each.selectable) for each in BUILT_IN for name in (each.plural, each.kind.lower())}
KINDS = {name for each in BUILT_IN for name in (each.plural, each.kind.lower(), *each.short_names)} | {
    *(resource.plural for resource in POLICY_KINDS.values())
}
KINDS |= {obj["kind"].lower() for obj in INSTALLED if obj}


def wrong_statements(page: str) -> list[str]:
    """Return what is wrong on a page, in words."""
    page = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    found = [problem for span in SPAN.findall(page) for problem in _problems(" ".join(span.split()))]
    found += [f"no panel *{title}*" for title in PANEL.findall(" ".join(page.split())) if f'"{title}"' not in _titles()]
    return [*found, *_columns(page), *_amounts(page), *_labels(page)]


def _titles() -> str:
    return DASHBOARD.replace('\\"', '"')


@cache
def _problems(span: str) -> tuple[str, ...]:
    """Return what is wrong with a name or a command; the same is asked of many pages with one mistake each."""
    return tuple(_about(span))


def _about(span: str) -> Iterator[str]:
    words = span.split()
    if words[0] == "vgpu-scheduler" and len(words) > 1:
        yield from _command(words[1:])
    elif words[:2] == ["kubectl", "vgpu"] and len(words) == 2:
        return
    elif words[0] == "kubectl":
        yield from _kubectl(words[1:])
    elif words[0].startswith("--"):
        if not _is_option(words[0]):
            yield f"no command has the option {words[0]}"
        if words[0] == "--count" and words[1:] not in ([], ["max"]) and not words[1].isdecimal():
            yield f"{words[1]} is no count"
    elif "/" in span and span.endswith((".yaml", ".md")):
        if not (ROOT / span).exists():
            yield f"there is no file {span}"
    elif not _is_known(span):
        yield f"nothing is called {span}"


# Commands ------------------------------------------------------------------------------------------------------------


def _command(words: list[str]) -> Iterator[str]:
    command, rest = _found(words)
    if command is None:
        yield f"there is no command vgpu-scheduler {' '.join(words)}"
        return
    try:
        # Commands keep the option for help that they make first, in the settings of that context.
        with click.Context(command, info_name=words[0], **main.context_settings) as context:
            given, _, _ = command.make_parser(context).parse_args(args=list(rest))
    except click.UsageError as error:
        yield f"vgpu-scheduler {' '.join(words)}: {error.format_message()}"
        return
    for option in command.params:
        value, known = given.get(option.name or ""), getattr(option.type, "choices", ())
        if isinstance(option, click.Option) and known and isinstance(value, str) and value not in known:
            yield f"vgpu-scheduler {words[0]} {option.opts[0]}: {value} is none of {known}"
    taken = [word for word in rest if not word.startswith("-")]
    shown = f"{command.get_usage(context)} {command.help}"
    for word in taken if words[0] != "top" else ():
        if word.islower() and rest[rest.index(word) - 1][:1] != "-" and word not in re.findall(r"\w+", shown):
            yield f"vgpu-scheduler {words[0]} knows no {word}"
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and isinstance(parameter.type, click.Choice) and taken:
            if taken[0] not in parameter.type.choices:
                yield f"vgpu-scheduler {' '.join(words)}: {taken[0]} is none of {parameter.type.choices}"
            return
    if words[0] == "top" and taken and taken[0] not in top.TABLES:
        yield f"there is no table {taken[0]}"


def _found(words: list[str]) -> tuple[click.Command | None, list[str]]:
    command: click.Command | None = main
    rest = list(words)
    while isinstance(command, click.Group) and rest:
        command = command.get_command(click.Context(command), rest.pop(0))
    return command, rest


def _is_option(name: str) -> bool:
    assert isinstance(main, click.Group)
    context = click.Context(main)
    commands = [main.get_command(context, each) for each in main.list_commands(context)]
    return any(name in parameter.opts for command in commands if command for parameter in command.params)


def _kubectl(words: list[str]) -> Iterator[str]:
    verb, *rest = words
    if verb not in VERBS:
        yield f"kubectl has no verb {verb}"
        return
    plain: list[str] = []
    while rest:
        word = rest.pop(0)
        flag, has_value, value = word.partition("=")
        if not word.startswith("-"):
            plain.append(word)
            continue
        if flag not in VERBS[verb]:
            yield f"kubectl {verb} has no flag {flag}"
        if not has_value and flag not in SWITCHES:
            if not rest:
                yield f"kubectl {verb} {flag} wants a value"
                return
            value = rest.pop(0)
        if flag == "-n" and value not in {"vgpu-system", "NAMESPACE"}:
            yield f"there is no namespace {value}"
        if flag == "-o" and value not in {"yaml", "json", "wide", "name"}:
            yield f"kubectl has no output {value}"
        if flag == "--field-selector" and plain and value.partition("=")[0] not in SELECTABLE.get(plain[0], ()):
            yield f"{plain[0]} cannot be selected by {value}"
        if (
            flag == "--field-selector"
            and value.startswith("reportingComponent=")
            and not value.endswith("=vgpu-scheduler")
        ):
            yield f"nobody reports as {value.partition('=')[2]}"
        if flag == "--as" and value != "system:serviceaccount:vgpu-system:vgpu-scheduler":
            yield f"there is no account {value}"
    yield from _objects(verb, plain)


def _objects(verb: str, plain: list[str]) -> Iterator[str]:
    if verb == "auth":
        if plain[:1] != ["can-i"] or plain[2] not in KINDS:
            yield f"kubectl auth {' '.join(plain)}"
        return
    if verb in {"cordon", "uncordon"}:
        return
    kind, slash, name = plain[0].partition("/")
    if not set(kind.split(",")) <= KINDS:
        yield f"there is no kind {kind}"
    installed = name or (plain[1] if len(plain) > 1 and plain[1].islower() else "")
    if (slash or kind == "configmap") and installed and not _is_installed(kind, installed):
        yield f"{kind} {installed} is not in the manifests"
    for change in plain[2:] if verb == "annotate" else ():
        key = change.rstrip("-").partition("=")[0]
        if key not in SOURCES:
            yield f"nothing writes the annotation {key}"


def _is_installed(kind: str, name: str) -> bool:
    return any(obj["kind"].lower() == kind and obj["metadata"]["name"] == name for obj in INSTALLED if obj)


# Names ---------------------------------------------------------------------------------------------------------------


def _is_known(span: str) -> bool:
    """Tell whether a name is one of ours: a setting, a resource, an annotation, a field, a reason, a column, a file."""
    if span in " ".join(NOT_OURS.values()).split() or any(f" {span} " in f" {words} " for words in NOT_OURS.values()):
        return True
    pair = SETTING.fullmatch(span)
    if pair is not None and _default(pair[1]) is not None:
        try:
            Settings.model_validate({pair[1]: yaml.safe_load(pair[2])})
        except ValidationError:
            return False
        return True
    name = span.partition(": ")[0]
    return (
        _default(name) is not None
        or name in _names_of_dialects()
        or _is_field(ClusterVGPUPolicySpec, name)
        or name in _fields_of_pods()
        or name in {metric.name for metric in METRICS}
        or name in {each.text for each in CardReason} | set(map(str, (*EventReason, *ConditionReason)))
        or name in _columns_of_all()
        or (name in set(main.list_commands(click.Context(main))) if isinstance(main, click.Group) else False)
        or (MANIFESTS / name).exists()
        or re.search(rf'"{re.escape(name)}[": ]', SOURCES) is not None
    )


def _default(name: str) -> object | None:
    """Return the default of a setting by its dotted name; None if there is no such setting."""
    model: Any = Settings()
    for part in name.split("."):
        if not isinstance(model, BaseModel) or part not in type(model).model_fields:
            return None
        model = getattr(model, part)
    return (model,)


def _names_of_dialects() -> set[str]:
    resources = {name for each in DIALECTS for name in each.claims.resources}
    limits = {f"limits.{name}" for each in DIALECTS for name in each.allocation.quota_resources}
    annotations = {*DIALECTS.pod_annotations, *DIALECTS.pod_labels}
    return resources | limits | annotations | {name.rpartition("/")[2] for name in annotations}


def _is_field(model: type[BaseModel], name: str) -> bool:
    """Tell whether a model has a field of a dotted name, as it is written."""
    first, _, rest = name.partition(".")
    for field, info in model.model_fields.items():
        if first in {field, info.alias}:
            return not rest or rest in str(model.model_json_schema())
    return False


def _fields_of_pods() -> set[str]:
    return set(re.findall(r'"(\w+)"', json.dumps(POD_FIELDS)))


def _columns_of_all() -> set[str]:
    return {column.name.upper() for table in top.TABLES.values() for column in table.listed}


def _columns(page: str) -> Iterator[str]:
    for what, column in re.findall(r"`vgpu-scheduler top (\w+)`,\s+column `([^`]+)`", page):
        table = top.TABLES.get(what)
        if table is None or column.lower() not in [each.name for each in table.listed if not each.wide]:
            yield f"top {what} has no column {column}"


def _labels(page: str) -> Iterator[str]:
    for heading, text in sections(page).items():
        for label in re.findall(r"the label `(\w+)`", text):
            if f"by ({label})" not in ALERTS[heading]["expr"]:
                yield f"{heading}: the alert has no label {label}"


def sections(page: str) -> dict[str, str]:
    """Return the text of each section by its heading, on one line."""
    split = [section.partition("\n") for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]]
    return {heading: " ".join(text.split()) for heading, _, text in split}


# Amounts -------------------------------------------------------------------------------------------------------------


def _for(alert: str, duration: str) -> bool:
    return bool(ALERTS[alert]["for"] == duration)


def _over(alert: str, threshold: str) -> bool:
    return " ".join(ALERTS[alert]["expr"].split()).endswith(f"> {threshold}")


def facts() -> dict[tuple[str, str], bool]:
    """Return the amounts that pages may state, by the section and the words, and whether they hold."""
    quarter, half, full = "a quarter of an hour", "half an hour", "95 percent"
    return {
        ("VGPUSchedulerSeveralLeaders", "for minutes"): _for("VGPUSchedulerSeveralLeaders", "2m"),
        ("VGPUSchedulerBacklog", "More than a hundred pods"): _over("VGPUSchedulerBacklog", "100"),
        ("VGPUSchedulerOverCapacity", "two pods may get out of memory"): True,
        ("VGPUSchedulerBacklog", quarter): _for("VGPUSchedulerBacklog", "15m"),
        ("VGPUSchedulerBindsFail", "More than a tenth of the binds"): _over("VGPUSchedulerBindsFail", "0.1"),
        ("VGPUSchedulerBindsSlow", "More than one Binding in ten"): "quantile(0.9,"
        in ALERTS["VGPUSchedulerBindsSlow"]["expr"],
        ("VGPUSchedulerBindsSlow", "longer than 200 ms"): _over("VGPUSchedulerBindsSlow", "0.2"),
        ("VGPUSchedulerAPIErrors", "More than one request in twenty"): _over("VGPUSchedulerAPIErrors", "0.05"),
        ("VGPUSchedulerCannotList", "for ten minutes"): _for("VGPUSchedulerCannotList", "10m"),
        ("VGPUSchedulerCannotList", "After three minutes"): PATIENCE == 180,
        ("VGPUSchedulerLocksNotReleased", "for ten minutes"): _for("VGPUSchedulerLocksNotReleased", "10m"),
        ("VGPUSchedulerPluginsSilent", quarter): _for("VGPUSchedulerPluginsSilent", "15m"),
        ("VGPUSchedulerCardsUnhealthy", quarter): _for("VGPUSchedulerCardsUnhealthy", "15m"),
        ("VGPUSchedulerPodsWaitLong", "more than an hour"): _over("VGPUSchedulerPodsWaitLong", "3600"),
        ("VGPUSchedulerPoolNearlyFull", full): _over("VGPUSchedulerPoolNearlyFull", "0.95"),
        ("VGPUSchedulerPoolNearlyFull", half): _for("VGPUSchedulerPoolNearlyFull", "30m"),
        ("VGPUSchedulerQuotaNearlyFull", full): _over("VGPUSchedulerQuotaNearlyFull", "0.95"),
        ("VGPUSchedulerQuotaNearlyFull", half): _for("VGPUSchedulerQuotaNearlyFull", "30m"),
        ("VGPUSchedulerVictimsOverdue", "30 seconds"): OVERDUE_AFTER == 30,
        ("VGPUSchedulerVictimsOverdue", "After two minutes"): GIVEN_UP_AFTER == 120,
        ("VGPUSchedulerPreemptionsHang", quarter): _over("VGPUSchedulerPreemptionsHang", "900"),
        ("VictimOverdue", "30 seconds"): OVERDUE_AFTER == 30,
        ("VictimOverdue", "After two minutes"): GIVEN_UP_AFTER == 120,
        ("PodGroupStale", "5 minutes"): NO_GROUP_RULES.stale_after == 300,
        ("WaitingForNode", "for 10 seconds"): SLOW_AFTER == 10,
        ("WaitingForNode", "three times at most"): MOST_MOVES == 3,
    }


def _amounts(page: str) -> Iterator[str]:
    """Say which amounts are not stated as they are, and which no fact is about."""
    told = sections(page)
    known = facts()
    for (heading, words), holds in known.items():
        if heading in told and not holds:
            yield f"{heading}: {words} is not so"
        if heading in told and words not in told[heading]:
            yield f"{heading}: does not say {words}"
    for heading, text in told.items():
        for amount in AMOUNT.finditer(text):
            said = amount[0]
            if not any(heading == about and said in words for about, words in known):
                yield f"{heading}: nothing knows {said}"
