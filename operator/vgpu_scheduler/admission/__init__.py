"""Admission of pods at creation: scheduler name, defaults and early refusals.

Scheduling does not depend on admission: a pod that did not pass through it is decided all the same. It saves users from
naming the scheduler and amounts, and refuses at once what would otherwise be an event later.
"""

from vgpu_scheduler.admission.completion import completed_containers
from vgpu_scheduler.admission.exemption import is_exempt
from vgpu_scheduler.admission.review import DEFAULT_SCHEDULER, AdmissionRules, Verdict, review

__all__ = ["DEFAULT_SCHEDULER", "AdmissionRules", "Verdict", "completed_containers", "is_exempt", "review"]
