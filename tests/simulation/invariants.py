"""What holds for an engine at any moment, whatever has happened to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from tests.engine.builders import OURS
from tests.simulation.cluster import SimApi
from tests.simulation.vendors import total_of
from tests.state.copies import algorithm_on, copied

from vgpu_scheduler.engine import Engine, QueueName
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Amounts, Outcome, Placement, add
from vgpu_scheduler.state import Phase, State


def waits(pod: Pod) -> bool:
    """Tell whether a pod of ours has to be placed."""
    return (
        pod.scheduler_name == OURS
        and not pod.node_name
        and not pod.terminal
        and not pod.deleting
        and not pod.spec.scheduling_gates
    )


def widened(state: State) -> set[str]:
    """Return the nodes that hold a reservation wider than what its pod says now."""
    return {held.node for held in state.reservations() if held.widened}


def resources(state: State) -> dict[str, dict[str, tuple[int, int]]]:
    """Return allocatable and used of every node, zeros left out, and what no node has any more."""
    nodes = state.nodes
    rows = nodes.rows().tolist()
    known = nodes.resources.columns.items()
    columns = {name: column for name, column in known if nodes.allocatable[rows, column].any()}
    result = {}
    for row in rows:
        pairs = {
            name: (int(nodes.allocatable[row, column]), int(nodes.used[row, column]))
            for name, column in columns.items()
        }
        result[nodes.name(row)] = {name: pair for name, pair in pairs.items() if any(pair)}
    return result


def counted(state: State) -> dict[object, dict[str, int]]:
    """Return what inter-pod terms count, by the names of nodes."""
    return {
        what: {state.nodes.name(row): count for row, count in counts.items()}
        for what, counts in state.interpod.as_values().items()
    }


def taken_ports(state: State) -> dict[str, frozenset[tuple[str, str, int, int]]]:
    """Return the ports that are taken, by the names of nodes."""
    return {state.nodes.name(row): state.nodes.ports.on(row) for row in state.nodes.rows().tolist()}


def check_indexes(state: State, rebuilt: State) -> None:
    """Check that what is kept up by events equals what is made from scratch."""
    for selectors, lasting in state.interpod._counters:
        rebuilt.interpod.acquire(selectors, rebuilt.nodes.row, lasting=lasting)
    assert counted(state) == counted(rebuilt)
    assert taken_ports(state) == taken_ports(rebuilt)
    assert state.volumes.as_values() == rebuilt.volumes.as_values()
    for wanted, places in state.volumes._free._kinds.items():
        assert places.as_values() == rebuilt.volumes.free(wanted).as_values()
    for volume, claims in state.volumes._taken.items():
        assert len(claims) == 1, f"{volume} is taken for {sorted(claims)}"


def check_starting_pods(state: State) -> None:
    """Check that the pods which a node has yet to start are those that a walk over all that is held there finds."""
    for node in {held.node for held in state.reservations()}:
        held = [each for each in state.reservations(node) if each.phase is not Phase.ASSUMED]
        there = [pod for each in held if (pod := state.pod(each.uid)) is not None]
        starting = state.starting_pods(node)
        assert starting.keys() == {pod.uid for pod in there if not pod.started and not pod.terminal}
        assert list(starting.values()) == sorted(starting.values())


def nobody_is_forgotten(engine: Engine) -> None:
    """Check that none of those who wait for a change could be placed now, by an engine that remembers nothing."""
    cycle = algorithm_on(engine, copied(engine.state))
    for uid in engine.queue.unschedulable():
        pod = engine.state.pod(uid)
        assert pod is not None
        if engine.storage.decisions_before_sync([pod]):
            continue
        decision = cycle.decide(pod)
        assert decision.outcome is not Outcome.PLACED, f"{pod.key} waits in vain for {engine.queue.place(uid)}"


def check_engine(
    engine: Engine, in_flight: Mapping[str, Placement], bound: AbstractSet[str], departed: AbstractSet[str]
) -> None:
    """Check the books and the queue.

    Parameters
    ----------
    bound
        The pods that the API has bound.
    departed
        Those of which the engine was told that they wait no longer, and nothing else yet.
    """
    state = engine.state
    rebuilt = state.rebuild()
    some = sorted(node.name for node in state.all_nodes())[:2]
    assert state.rebuild(some).ledger() == {name: of for name, of in rebuilt.ledger().items() if name in some}
    ours, theirs = state.ledger(), rebuilt.ledger()
    drift = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
    assert drift <= widened(state), f"booked and rebuilt differ: {drift}"
    check_indexes(state, rebuilt)
    assert not engine.queue.placed_after_flush, "a change woke nobody"
    assert resources(state) == resources(rebuilt)
    if not widened(state):
        assert state.quota_usage.as_values() == rebuilt.quota_usage.as_values()
    assert (state.devices.columns.used >= 0).all()
    check_starting_pods(state)
    for held in state.reservations():
        pod = state.pod(held.uid)
        assert pod is not None, f"{held} of a pod that nobody knows"
        if held.phase is Phase.ASSUMED:
            assert held.uid in in_flight, f"{held} with nothing in flight"
        elif held.phase is Phase.CONFIRMED:
            assert not pod.node_name
            assert held.uid in bound or held.uid not in in_flight
        else:
            assert pod.node_name == held.node, f"{held} of a pod that is not there"
    for pod in state.pods():
        place = engine.queue.place(pod.uid)
        held_now = state.reservation(pod.uid)
        if waits(pod):
            confirmed = held_now is not None and held_now.phase is not Phase.ASSUMED
            known = place or pod.uid in in_flight or confirmed or pod.uid in departed
            assert known, f"{pod.key} is stranded"
        if place is QueueName.IN_FLIGHT:
            assert pod.uid in in_flight, f"{pod.key} is being tried by nobody"
        if place in {QueueName.ACTIVE, QueueName.BACKOFF, QueueName.UNSCHEDULABLE}:
            assert waits(pod), f"{pod.key} is queued in vain"
    for uid in in_flight:
        assert state.in_flight(uid)


def check_placement(engine: Engine, placement: Placement) -> None:
    """Check that a placement which was just decided or checked fits in everything that is known."""
    state = engine.state
    row = state.nodes.row(placement.node)
    assert row is not None
    node = state.node(placement.node)
    assert node is not None
    assert not node.unschedulable
    listed = {device.uuid: device for device in state.devices.devices(row)}
    used = dict(state.devices.usage(row))
    for container in placement.containers:
        shares = [assignment.uuid for assignment in container if assignment.piece is None]
        assert len(set(shares)) == len(shares), "one container got a card twice"
        for uuid in {assignment.uuid for assignment in container}:
            assert (uuid in shares) is not bool(listed[uuid].pieces), "a share of a MIG card, or a piece of another"
            assert uuid not in state.devices.inconsistent(row)
            assert listed[uuid].healthy
            assert not listed[uuid].cordoned
            assert uuid not in state.devices.over_capacity(row), f"{uuid} is over: {used[uuid]}"
    for name in ("cpu", "pods"):
        column = state.nodes.resources.column(name)
        assert state.nodes.used[row, column] <= state.nodes.allocatable[row, column], f"{name} is over"


def check_quota(engine: Engine, placement: Placement) -> None:
    """Check that a placement which was just decided or checked leaves its namespace within its quotas, on NVIDIA's."""
    if "NVIDIA" in placement.vendors():
        assert not engine.quota_limits.exceeded("default", engine.state), engine.quota_limits.describe(
            "default", engine.state
        )


def check_truth(api: SimApi, disturbed: Collection[tuple[str, str]]) -> None:
    """Check that the API has bound no more of ours on a card than it has; cards that something odd befell excepted."""
    given: dict[tuple[str, str], Amounts] = {}
    for node, uuid, amounts in api.held():
        given[node, uuid] = add(given.get((node, uuid), (0, 0, 0)), amounts)
    for where, amounts in given.items():
        if where not in disturbed:
            total = total_of(where[1])
            assert all(have <= most for have, most in zip(amounts, total, strict=False)), f"{where}: {amounts}"
            assert not any(amounts[len(total) :]), f"{where}: {amounts}"


def same_knowledge(old: Engine, new: Engine, ignoring: Collection[str]) -> None:
    """Check that a long-lived engine knows what a new one reads from the API.

    Nodes whose registration cannot be read are ignored: only the old one remembers the last good list.
    """
    skipped = widened(old.state) | set(ignoring)
    ours, theirs = old.state.ledger(), new.state.ledger()
    assert {k: v for k, v in ours.items() if k not in skipped} == {k: v for k, v in theirs.items() if k not in skipped}
    assert resources(old.state) == resources(new.state)
    if not widened(old.state):
        assert old.state.quota_usage.as_values() == new.state.quota_usage.as_values()
    assert {pod.uid for pod in old.state.pods()} == {pod.uid for pod in new.state.pods()}
    assert {node.name: node.uid for node in old.state.all_nodes()} == {
        node.name: node.uid for node in new.state.all_nodes()
    }
    assert {pod.uid for pod in old.state.pods() if pod.uid in old.queue} == {
        pod.uid for pod in new.state.pods() if pod.uid in new.queue
    }
