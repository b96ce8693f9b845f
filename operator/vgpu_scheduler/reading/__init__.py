"""Reads a cluster for a command: the live one with the user's own rights, or files.

Exports are imported on first use, so that commands can list their options without loading the kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vgpu_scheduler.reading.asked_pods import at_home, is_at_home, namespaces_of, new_pods, nothing_to_place, within
    from vgpu_scheduler.reading.cards import CardPlace, card_places, find_card, find_card_among
    from vgpu_scheduler.reading.doctor_input import (
        UnauthorizedError,
        doctor_input_of_files,
        doctor_input_of_view,
        read_doctor_input,
        read_doctor_input_with_view,
    )
    from vgpu_scheduler.reading.explained import (
        ExplainedPod,
        describe_decision,
        describe_place,
        describe_terminating,
        explain_one,
        record_of,
        why_no_more,
        why_no_more_in,
    )
    from vgpu_scheduler.reading.files import TOO_DEEP, FileError, documents, read_text, version_problem, yaml_files
    from vgpu_scheduler.reading.forecasting import Forecaster, waits_for_volumes, waits_of_answers, with_forecast
    from vgpu_scheduler.reading.kube_state_metrics import DeletedPodQuery, DeletedPods, deleted_pods
    from vgpu_scheduler.reading.lists import list_objects
    from vgpu_scheduler.reading.options import STDIN, ClusterOptions, PageOptions, PrometheusServer
    from vgpu_scheduler.reading.page import ask_page
    from vgpu_scheduler.reading.policies import policies_among, read_policies
    from vgpu_scheduler.reading.prometheus import hours_in_prometheus
    from vgpu_scheduler.reading.rights import may_delete_pods_in, namespaces_to_delete_pods_in
    from vgpu_scheduler.reading.scenario import (
        SimulatedPods,
        add_copies,
        answers_to,
        change_nodes,
        keep_room_for_others,
        number_of_copies,
    )
    from vgpu_scheduler.reading.schedulers import (
        asks_beyond_kubelets,
        is_ours,
        lacks_beyond_kubelets,
        left_to_whom,
        named_anew,
        named_anew_for_cards,
    )
    from vgpu_scheduler.reading.settings import SchedulerSettings, SettingsObjects, settings_from_file
    from vgpu_scheduler.reading.view import (
        ALL_KINDS,
        LISTED_RESOURCES,
        NAMESPACED_KINDS,
        REQUIRED_KINDS,
        SELECTING_RESOURCES,
        ClusterView,
        connect_to,
        get_object,
        is_optional,
        listed_resources,
        objects_of_text,
        read_cluster,
        read_files,
        read_live_cluster,
        read_namespace,
        read_scheduler,
        with_kind,
    )
    from vgpu_scheduler.reading.warnings import (
        IGNORED,
        creation_warnings,
        ignored_kinds,
        pod_warnings,
        settings_notes,
        view_warnings,
    )
    from vgpu_scheduler.reading.world import MissingRightsError, keep_room, make_world

__all__ = [
    "ALL_KINDS",
    "IGNORED",
    "LISTED_RESOURCES",
    "NAMESPACED_KINDS",
    "REQUIRED_KINDS",
    "SELECTING_RESOURCES",
    "STDIN",
    "TOO_DEEP",
    "CardPlace",
    "ClusterOptions",
    "ClusterView",
    "DeletedPodQuery",
    "DeletedPods",
    "ExplainedPod",
    "FileError",
    "Forecaster",
    "MissingRightsError",
    "PageOptions",
    "PrometheusServer",
    "SchedulerSettings",
    "SettingsObjects",
    "SimulatedPods",
    "UnauthorizedError",
    "add_copies",
    "answers_to",
    "ask_page",
    "asks_beyond_kubelets",
    "at_home",
    "card_places",
    "change_nodes",
    "connect_to",
    "creation_warnings",
    "deleted_pods",
    "describe_decision",
    "describe_place",
    "describe_terminating",
    "doctor_input_of_files",
    "doctor_input_of_view",
    "documents",
    "explain_one",
    "find_card",
    "find_card_among",
    "get_object",
    "hours_in_prometheus",
    "ignored_kinds",
    "is_at_home",
    "is_optional",
    "is_ours",
    "keep_room",
    "keep_room_for_others",
    "lacks_beyond_kubelets",
    "left_to_whom",
    "list_objects",
    "listed_resources",
    "make_world",
    "may_delete_pods_in",
    "named_anew",
    "named_anew_for_cards",
    "namespaces_of",
    "namespaces_to_delete_pods_in",
    "new_pods",
    "nothing_to_place",
    "number_of_copies",
    "objects_of_text",
    "pod_warnings",
    "policies_among",
    "read_cluster",
    "read_doctor_input",
    "read_doctor_input_with_view",
    "read_files",
    "read_live_cluster",
    "read_namespace",
    "read_policies",
    "read_scheduler",
    "read_text",
    "record_of",
    "settings_from_file",
    "settings_notes",
    "version_problem",
    "view_warnings",
    "waits_for_volumes",
    "waits_of_answers",
    "why_no_more",
    "why_no_more_in",
    "with_forecast",
    "with_kind",
    "within",
    "yaml_files",
]

_HOMES = (
    *("options", "files", "lists", "settings", "view", "rights", "warnings", "world", "cards", "schedulers"),
    *(
        "explained",
        "prometheus",
        "kube_state_metrics",
        "page",
        "policies",
        "asked_pods",
        "scenario",
        "doctor_input",
        "forecasting",
    ),
)
"""The modules that are searched for an export, in order; the first one is cheap to import."""


def __getattr__(name: str) -> Any:
    """Import an export on first use.

    Raises
    ------
    AttributeError
        If there is no export of that name.
    """
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"{__name__}.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
