"""Pods that are kept away by the class or quality of those on the cards are told which word lets them in."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

from tests.whatif.test_whatif_remedies import node, pod, world_of

from vgpu_scheduler.whatif import ask, remedies

Object = dict[str, Any]
CLASS, QUALITY = "metax-tech.com/sgpu-app-class", "metax-tech.com/sgpu-qos-policy"
COUNT, MEMORY, CORES = "metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore"
CLASSES, QUALITIES = ("", "online", "offline"), ("", "best-effort", "fixed-share", "burst-share")


def metax(quality: str) -> Object:
    card = {"uuid": "M0", "totalDevCount": 4, "totalCompute": 100, "totalVRam": 65536, "healthy": True}
    made = node("m", cards=0)
    made["metadata"]["annotations"] = {"metax-tech.com/node-gpu-devices": json.dumps([{**card, "qosPolicy": quality}])}
    for amounts in made["status"].values():
        amounts |= {COUNT: "16", MEMORY: "64", CORES: "100"}
    return made


def asked(name: str, app_class: str, quality: str) -> Object:
    given = {key: word for key, word in ((CLASS, app_class), (QUALITY, quality)) if word}
    return pod(name, {COUNT: 1, MEMORY: 8, CORES: 10}, metadata={"annotations": given})


def on_the_card(name: str, app_class: str, quality: str) -> Object:
    made = asked(name, app_class, quality)
    made["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": "m",
        "hami.io/metax-sgpu-devices-allocated": "M0,Metax-SGPU,8192,10:;",
    }
    made["spec"]["nodeName"] = "m"
    return made


def words_that_help(objects: list[Object], waits: Object) -> set[str]:
    """Try each word of each annotation; return what is to be done, in words, where the pod fits then."""
    given, found = waits["metadata"]["annotations"], set()
    for name, words in ((CLASS, CLASSES[1:]), (QUALITY, QUALITIES[1:])):
        for word in words:
            changed = {**waits, "metadata": {**waits["metadata"], "annotations": {**given, name: word}}}
            if ask(*world_of(*objects, changed)).node:
                instead = f" instead of {given[name]}" if name in given else ""
                found.add(f"write {word} as its annotation {name}{instead}")
    return found


def test_each_word_with_which_a_pod_fits_is_told_and_no_other() -> None:
    helped = 0
    for there, wanted, quality, other in product(CLASSES, CLASSES, QUALITIES[1:3], QUALITIES[1:3]):
        objects, waits = [metax(""), on_the_card("there", there, quality)], asked("asked", wanted, other)
        world, waiting = world_of(*objects, waits)
        if not ask(world, waiting).node:
            helping = words_that_help(objects, waits)
            told = {each.text for each in remedies(world, waiting) if " as its annotation " in each.text}
            assert told == helping, (there, wanted, quality, other)
            helped += bool(helping)
    assert helped > 5
