"""What each vendor's backend does with a container: tell whether it asks for its devices, and change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.naive.webhook.pods import Container, Denied, exact, value
from tests.naive.webhook.quirks import WebhookQuirk

Obj = dict[str, Any]
Backend = Callable[[Container], bool]

INT32 = 2**31 - 1


def backends(config: Obj) -> Iterator[Backend]:
    """The backends that a device configuration sets up."""
    for name, section in config.items():
        if name == "iluvatars":
            yield from (lambda c, chip=chip: iluvatar(c, chip) for chip in section)
        elif name == "vnpus":
            yield from (lambda c, chip=chip: ascend(c, chip) for chip in section["configs"])
        else:
            yield from (lambda c, one=one, section=section: one(c, section) for one in SECTIONS[name])


def nvidia(c: Container, section: Obj) -> bool:
    count, memory = section["resourceCountName"], section["resourceMemoryName"]
    percent, cores = section["resourceMemoryPercentageName"], section["resourceCoreName"]
    if not memory and not c.switch(WebhookQuirk.EMPTY_NAME_IS_NONE):
        memory = "nvidia.com/gpumem"
    limits, requests = c.limits(), c.requests()
    share = limits.get(percent, requests.get(percent))
    if share is not None and not 0 <= value(share) <= 100:
        raise Denied(
            f"invalid {percent} value {value(share)} in container {c.name}: must be an integer between 0 and 100"
        )
    priority = limits.get(section["resourcePriorityName"])
    if priority is not None:
        c.env("CUDA_TASK_PRIORITY", str(value(priority)))
    policy = section.get("gpuCorePolicy")
    if policy and policy != "default":
        c.env("GPU_CORE_UTILIZATION_POLICY", policy)
    found = count in limits
    if not found and any(name in limits for name in (cores, memory, percent)) and section.get("defaultGPUNum", 0) > 0:
        if count not in requests or c.switch(WebhookQuirk.DEFAULT_COUNT_BESIDE_REQUEST):
            c.write("limits", count, section["defaultGPUNum"])
        found = True
    limits = c.limits()
    counted = count in limits or count in requests
    whole = (
        value(share) == 100 if share is not None else not memory or (memory not in limits and memory not in requests)
    )
    if counted and cores not in limits and cores not in requests and whole:
        c.write("limits", cores, 100)
        found = True
    elif counted and not found and str(limits.get(cores)) == "100" and cores not in requests and whole:
        found = not c.switch(WebhookQuirk.ENV_APPENDED_AGAIN)  # as an earlier review leaves it
    if found:
        c.runtime_class(section.get("runtimeClassName", ""))
    elif section.get("overwriteEnv"):
        c.env("NVIDIA_VISIBLE_DEVICES", "none")
    return found


def ascend(c: Container, chip: Obj) -> bool:
    count_name, memory_name = chip["resourceName"], chip["resourceMemoryName"]
    count = c.limits().get(count_name)
    if count is None:
        if chip.get("overwriteEnv"):
            c.env("ASCEND_VISIBLE_DEVICES", "")
        return False
    malformed = c.untouchable(count_name, memory_name)
    number = value(count)
    if chip["commonWord"] == "Ascend910C" and chip.get("superPod"):
        if number == 1 and not malformed:
            c.write("limits", count_name, 2)
            if count_name in c.requests():
                c.write("requests", count_name, 2)
        elif number % 2 and number != 1:
            raise Denied(f"Ascend910C device request must be 1 or 2*n, got {number}")
    soft = c.annotation("huawei.com/vnpu-mode") == "hami-core"
    cores = c.limits().get(chip["resourceCoreName"])
    if not soft and cores is not None and value(cores) > 0:
        raise Denied(f"{chip['resourceCoreName']} is only supported in hami-core (soft split) mode")
    memory = c.limits().get(memory_name)
    amount = chip["memoryAllocatable"]
    if memory is not None and soft:
        amount = value(memory)
    elif memory is not None:
        amount = trimmed(value(memory), chip)
        if amount <= 0:
            raise Denied(f"{memory_name} {value(memory)} is invalid")
    if number > 1 and not soft and amount != chip["memoryAllocatable"]:
        raise Denied("vNPU not supported for multiple devices")
    if not malformed:
        c.write("limits", memory_name, amount)
        c.write("requests", memory_name, amount)
    c.runtime_class(chip.get("runtimeClassName", ""))
    return True


def trimmed(memory: int, chip: Obj) -> int:
    for template in sorted(chip["templates"], key=lambda template: template["memory"]):
        if memory <= template["memory"]:
            return int(template["memory"])
    return int(chip["memoryAllocatable"]) if memory <= chip["memoryCapacity"] else 0


def mthreads(c: Container, section: Obj) -> bool:
    count_name, memory_name, cores_name = (section[f"resource{what}Name"] for what in ("Count", "Memory", "Core"))
    count = c.limits().get(count_name, c.requests().get(count_name))
    if count is None:
        return False
    number = value(count)
    if number <= 0:
        raise Denied(f"{count_name} must be greater than 0")
    if c.untouchable(count_name):
        return True
    if number > 1:
        c.change(cores_name, 16 * number)
        c.change(memory_name, 96 * number)
        c.annotate("mthreads.com/request-gpu-num", str(number))
        return True
    memory = c.limits().get(memory_name)
    if memory is None and memory_name in c.requests() and not c.switch(WebhookQuirk.REQUESTED_MEMORY_OVERLOOKED):
        memory = c.requests()[memory_name]
    if memory is None:
        c.change(cores_name, 16)
        c.change(memory_name, 96)
    elif exact(memory) not in (2, 4, 8, 16, 32, 64, 96):
        raise Denied("sGPU memory request value is invalid, valid values are [2, 4, 8, 16, 32, 64, 96]")
    return True


def iluvatar(c: Container, chip: Obj) -> bool:
    count_name = chip["resourceCountName"]
    count = c.limits().get(count_name)
    if count is None:
        return False
    if value(count) > 1 and not c.untouchable(count_name):
        c.change(chip["resourceCoreName"], 100 * value(count))
    c.env("SOL_CONTINER_NAME", c.name)
    return True


def kunlun_slices(c: Container, section: Obj) -> bool:
    memory_name = section["resourceVMemoryName"]
    if section["resourceVCountName"] not in c.limits():
        return False
    memory = c.limits().get(memory_name)
    if memory is not None and not c.untouchable(memory_name):
        size = next((size for size in (24576, 49152) if value(memory) <= size), 98304)
        c.write("limits", memory_name, size)
        c.write("requests", memory_name, size)
    return True


def metax_shared(c: Container, section: Obj) -> bool:
    count = c.limits().get(section["resourceVCountName"])
    if count is None:
        return False
    app_class = c.annotation("metax-tech.com/sgpu-app-class")
    if app_class is not None:
        if app_class not in ("online", "offline"):
            raise Denied("metax-tech.com/sgpu-app-class must be set one of [online, offline]")
        if value(count) != 1:
            raise Denied("app-class pod must request single device")
    if app_class != "online":
        qos = c.annotation("metax-tech.com/sgpu-qos-policy")
        if qos is None:
            c.annotate("metax-tech.com/sgpu-qos-policy", "best-effort")
        elif qos not in ("best-effort", "fixed-share", "burst-share"):
            raise Denied("metax-tech.com/sgpu-qos-policy must be set one of [best-effort, fixed-share, burst-share]")
    return True


def enflame_slices(c: Container, section: Obj) -> bool:
    slices, cores = section["resourceNameDRSGCU"], section["resourceNameGCUCore"]
    given = {**c.requests(), **c.limits()}
    by_needs = [name for name in (section["resourceNameGCUMemory"], cores) if name in given]
    asked = [slices] if slices in given else by_needs
    for name in asked:
        if name == cores and not 0 < value(given[name]) <= 100:
            raise Denied(f"{name} must be in range (0,100]")
        if value(given[name]) <= 0:
            raise Denied(f"{name} must be greater than 0")
    for name in asked:
        c.write("requests", name, c.requests().get(name, given[name]))
        c.write("limits", name, given[name])
    return bool(asked)


def neuron(c: Container, section: Obj) -> bool:
    for name, most in ((section["resourceCountName"], INT32), (section["resourceCoreName"], 2 * INT32)):
        text = c.limits().get(name, c.requests().get(name))
        if text is None:
            continue
        amount = exact(text)
        if amount is None:
            raise Denied(f"{name} must be an integer")
        if amount <= 0:
            raise Denied(f"{name} must be greater than 0")
        if amount > most:
            raise Denied(f"{name} must not exceed {most}")
        if name == section["resourceCoreName"] and amount > 2 and amount % 2:
            raise Denied(f"{name} must be 1 or a multiple of 2, got {amount}")
        return True
    return False


def amd(c: Container, section: Obj) -> bool:
    limits = c.limits()
    cores = limits.get(section["resourceCoreName"])
    if section["resourceCountName"] in limits and cores is not None and not 1 <= (exact(cores) or 0) <= 100:
        raise Denied(f"{section['resourceCoreName']} must be an integer percentage between 1 and 100")
    return any(section[f"resource{what}Name"] in limits for what in ("Count", "Memory", "Core"))


def present(field: str) -> Callable[[Container, Obj], bool]:
    return lambda c, section: section[field] in c.limits()


COUNTED = present("resourceCountName")
SECTIONS: dict[str, tuple[Callable[[Container, Obj], bool], ...]] = {
    "nvidia": (nvidia,),
    "hygon": (COUNTED,),
    "cambricon": (COUNTED,),
    "mthreads": (mthreads,),
    "metax": (COUNTED, metax_shared),
    "kunlun": (COUNTED, kunlun_slices),
    "enflame": (present("resourceNameGCU"), enflame_slices),
    "awsneuron": (neuron,),
    "amd": (amd,),
    "vastai": (COUNTED,),
    "biren": (COUNTED,),
}
