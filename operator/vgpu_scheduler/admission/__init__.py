"""What may be done for a pod at its creation, before it is stored: names, defaults, and early refusals.

Nothing depends on it: a pod that did not come this way is decided all the same. It saves users from naming the
scheduler and amounts, and tells them at once what would otherwise be an event later.
"""

from vgpu_scheduler.admission.completion import completed_containers
from vgpu_scheduler.admission.exemption import is_exempt
from vgpu_scheduler.admission.review import DEFAULT_SCHEDULER, AdmissionRules, Verdict, review

__all__ = ["DEFAULT_SCHEDULER", "AdmissionRules", "Verdict", "completed_containers", "is_exempt", "review"]
