"""Policies that are refused, each with the field at fault."""

from __future__ import annotations

from tests.policy.policy_cases import DEVICESHARE, NAMESPACED, Case, labels, scorer

MALFORMED = {
    # the whole
    "nothing in it": Case("{}", "spec"),
    "no section": Case("{priority: 3, selector: {}, namespaceSelector: {}}", "spec"),
    "no mapping": Case("[nodes]", "spec"),
    "no spec": Case("null", "spec"),
    "unknown section": Case("nodes: {policy: binpack}\nscoring: {}", "spec.scoring"),
    "name in Python": Case("node_selector: {}", "spec.node_selector"),
    "a name too long": Case("defaults: {cores: 1}", "metadata.name", name="n" * 64),
    "a name too long, namespaced": Case("defaults: {cores: 1}", "metadata.name", NAMESPACED, "n" * 64),
    "namespaces in a namespaced policy": Case(
        "nodes: {policy: binpack}\nnamespaceSelector: {}", "spec.namespaceSelector", NAMESPACED
    ),
    "priority too high": Case("priority: 1000001\ndefaults: {cores: 1}", "spec.priority"),
    "priority too low": Case("priority: -1000001\ndefaults: {cores: 1}", "spec.priority"),
    "priority a text": Case('priority: "1"\ndefaults: {cores: 1}', "spec.priority"),
    "priority broken": Case("priority: 1.5\ndefaults: {cores: 1}", "spec.priority"),
    # nodes
    "nodes: neither form": Case("nodes: {}", "spec.nodes"),
    "nodes: both forms": Case("nodes: {policy: binpack, scorers: [{name: hami}]}", "spec.nodes"),
    "nodes: policy of devices": Case("nodes: {policy: mutex}", "spec.nodes.policy"),
    "nodes: policy in upper case": Case("nodes: {policy: Binpack}", "spec.nodes.policy"),
    "together by itself": Case("nodes: {together: {key: rack}}", "spec.nodes"),
    "together by nothing": Case("nodes: {policy: spread, together: {mode: Required}}", "spec.nodes.together.key"),
    "together by what is no label": Case("nodes: {policy: spread, together: {key: a b}}", "spec.nodes.together.key"),
    "together in another mode": Case(
        "nodes: {policy: spread, together: {key: rack, mode: required}}", "spec.nodes.together.mode"
    ),
    "nodes: no scorers": Case("nodes: {scorers: []}", "spec.nodes.scorers"),
    "nodes: scorers of a wrong type": Case("nodes: {scorers: {name: hami}}", "spec.nodes.scorers"),
    "scorer without a name": Case(scorer("weight: 1"), "spec.nodes.scorers[0].name"),
    "scorer unknown": Case("nodes: {scorers: [{name: hami}, {name: best}]}", "spec.nodes.scorers[1].name"),
    "scorer twice": Case("nodes: {scorers: [{name: hami}, {name: hami, weight: 2}]}", "spec.nodes.scorers"),
    "scorer with an unknown field": Case(scorer("name: hami, wieght: 1"), "spec.nodes.scorers[0].wieght"),
    "weight too large": Case(scorer("name: binpack, weight: 1000001"), "spec.nodes.scorers[0].weight"),
    "weight true": Case(scorer("name: hami, weight: true"), "spec.nodes.scorers[0].weight"),
    "weight negative": Case("nodes: {scorers: [{name: binpack}, {name: hami, weight: -1}]}", "scorers[1].weight"),
    "weight twice": Case(
        scorer("name: binpack, weight: 1, arguments: {binpack.weight: 1}"), "spec.nodes.scorers[0].weight"
    ),
    "policy of another scorer": Case(scorer("name: binpack, policy: spread"), "spec.nodes.scorers[0].policy"),
    "resources of another scorer": Case(scorer("name: hami, resources: {cpu: 1}"), "spec.nodes.scorers[0].resources"),
    "resources negative": Case(scorer("name: binpack, resources: {cpu: -1}"), "spec.nodes.scorers[0].resources.cpu"),
    "resources a text": Case(scorer('name: binpack, resources: {cpu: "1"}'), "spec.nodes.scorers[0].resources.cpu"),
    "resources with a bad name": Case(scorer("name: binpack, resources: {a b: 1}"), "spec.nodes.scorers[0].resources"),
    "resources too many": Case(
        scorer(f"name: binpack, resources: {{{', '.join(f'r{i}: 1' for i in range(33))}}}"),
        "spec.nodes.scorers[0].resources",
    ),
    "arguments of another scorer": Case(
        scorer("name: hami, arguments: {binpack.cpu: 1}"), "spec.nodes.scorers[0].arguments"
    ),
    "arguments beside resources": Case(
        scorer("name: binpack, resources: {cpu: 1}, arguments: {binpack.cpu: 1}"), "spec.nodes.scorers[0].arguments"
    ),
    "arguments of another plugin": Case(
        scorer("name: binpack, arguments: {binpack.cpu: 1, nodeorder.weight: 1}"), "spec.nodes.scorers[0].arguments"
    ),
    "arguments with an endless key": Case(
        scorer(f"name: binpack, arguments: {{binpack.resources.{'x' * 500}: 1}}"), "spec.nodes.scorers[0].arguments"
    ),
    "arguments with an endless value": Case(
        scorer(f"name: binpack, arguments: {{binpack.resources: {'x' * 4097}}}"),
        "spec.nodes.scorers[0].arguments.binpack.resources",
    ),
    "arguments with a list": Case(
        scorer("name: binpack, arguments: {binpack.resources: [cpu]}"),
        "spec.nodes.scorers[0].arguments.binpack.resources",
    ),
    "arguments with true": Case(
        scorer("name: binpack, arguments: {binpack.cpu: true}"), "spec.nodes.scorers[0].arguments.binpack.cpu"
    ),
    "arguments with a huge weight": Case(
        scorer("name: binpack, arguments: {binpack.weight: -1000001}"), "spec.nodes.scorers[0].arguments"
    ),
    "resources of a scorer without": Case(
        scorer("name: imageLocality, resources: {cpu: 1}"), "spec.nodes.scorers[0].resources"
    ),
    "shape of another scorer": Case(
        scorer("name: mostAllocated, shape: [{utilization: 0, score: 1}]"), "spec.nodes.scorers[0].shape"
    ),
    "shape without points": Case(scorer("name: requestedToCapacityRatio, shape: []"), "spec.nodes.scorers[0].shape"),
    "shape with a point twice": Case(
        scorer("name: requestedToCapacityRatio, shape: [{utilization: 5, score: 1}, {utilization: 5, score: 2}]"),
        "spec.nodes.scorers[0].shape",
    ),
    "shape beyond the scale": Case(
        scorer("name: requestedToCapacityRatio, shape: [{utilization: 5, score: 11}]"),
        "spec.nodes.scorers[0].shape[0].score",
    ),
    "prices of another scorer": Case(scorer("name: binpack, prices: Auto"), "spec.nodes.scorers[0].prices"),
    "prices unknown": Case(scorer("name: fragmentation, prices: auto"), "spec.nodes.scorers[0].prices"),
    "strategy of another scorer": Case(
        scorer("name: fragmentation, scoringStrategy: {}"), "spec.nodes.scorers[0].scoringStrategy"
    ),
    "strategy unknown": Case(
        scorer("name: deviceshare, scoringStrategy: {type: bestFit}"), "spec.nodes.scorers[0].scoringStrategy.type"
    ),
    "strategy weight zero": Case(
        scorer("name: deviceshare, scoringStrategy: {resources: [{name: cpu, weight: 0}]}"),
        "spec.nodes.scorers[0].scoringStrategy.resources[0].weight",
    ),
    "strategy resource twice": Case(
        scorer("name: deviceshare, scoringStrategy: {resources: [{name: cpu}, {name: cpu, weight: 2}]}"),
        "spec.nodes.scorers[0].scoringStrategy.resources",
    ),
    "strategy without resources": Case(
        scorer("name: deviceshare, scoringStrategy: {resources: []}"),
        "spec.nodes.scorers[0].scoringStrategy.resources",
    ),
    "strategy with a bad name": Case(
        scorer("name: deviceshare, scoringStrategy: {resources: [{name: a b}]}"),
        "spec.nodes.scorers[0].scoringStrategy.resources[0].name",
    ),
    # devices
    "devices: empty": Case("devices: {}", "spec.devices"),
    "devices: policy unknown": Case("devices: {policy: pack}", "spec.devices.policy"),
    "devices: policy empty": Case('devices: {policy: ""}', "spec.devices.policy"),
    "devices: policy with a gap": Case('devices: {policy: "numa,,binpack"}', "spec.devices.policy"),
    "devices: policy in a list that stands alone": Case('devices: {policy: "numa,bestFit"}', "spec.devices.policy"),
    "devices: policy twice": Case('devices: {policy: "numa, binpack,numa"}', "spec.devices.policy"),
    "devices: order unknown": Case("devices: {order: numaFirst}", "spec.devices.order"),
    "devices: weights all zero": Case("devices: {weights: {slots: 0, memory: 0, cores: 0}}", "spec.devices.weights"),
    "devices: weight negative": Case("devices: {weights: {slots: -1}}", "spec.devices.weights.slots"),
    "devices: HAMi's names of weights": Case("devices: {weights: {slot: 1}}", "spec.devices.weights.slot"),
    "devices: weights without a score": Case("devices: {policy: bestFit, weights: {slots: 2}}", "spec.devices.weights"),
    "devices: policy against deviceshare": Case(DEVICESHARE + "devices: {policy: LeastAllocated}", "devices.policy"),
    "devices: policy against deviceshare's default": Case(
        "nodes: {scorers: [{name: deviceshare, weight: 2}]}\ndevices: {policy: spread}", "spec.devices.policy"
    ),
    "devices: weights against deviceshare": Case(
        DEVICESHARE + "devices: {weights: {slots: 2}}", "spec.devices.weights"
    ),
    "types: empty": Case("devices: {types: {}}", "spec.devices.types"),
    "types: an empty list": Case("devices: {types: {allow: []}}", "spec.devices.types.allow"),
    "types: an empty name": Case('devices: {types: {deny: [""]}}', "spec.devices.types.deny[0]"),
    "types: names in one text": Case('devices: {types: {allow: ["A100,H100"]}}', "spec.devices.types.allow[0]"),
    "types: a blank": Case('devices: {types: {allow: [A100, " H100"]}}', "spec.devices.types.allow[1]"),
    "types: the same twice": Case("devices: {types: {allow: [A100, A100]}}", "spec.devices.types.allow"),
    "types: allowed and denied": Case("devices: {types: {allow: [A100], deny: [a100]}}", "spec.devices.types.deny"),
    "devices: exclusive a text": Case('devices: {exclusive: "yes"}', "spec.devices.exclusive"),
    "devices: topology true": Case("devices: {topology: true}", "spec.devices.topology"),
    "devices: numa preferred": Case("devices: {numa: Preferred}", "spec.devices.numa"),
    "devices: no modes": Case("devices: {modes: []}", "spec.devices.modes"),
    "devices: mode unknown": Case("devices: {modes: [mig, mlu]}", "spec.devices.modes[1]"),
    "devices: mode twice": Case("devices: {modes: [mig, mig]}", "spec.devices.modes"),
    "apart from: nothing": Case("devices: {apartFrom: {}}", "spec.devices.apartFrom.matchLabelKeys"),
    "apart from: no keys": Case("devices: {apartFrom: {matchLabelKeys: []}}", "spec.devices.apartFrom.matchLabelKeys"),
    "apart from: a key twice": Case(
        "devices: {apartFrom: {matchLabelKeys: [app, app]}}", "spec.devices.apartFrom.matchLabelKeys"
    ),
    "apart from: no key": Case(
        "devices: {apartFrom: {matchLabelKeys: [a b]}}", "spec.devices.apartFrom.matchLabelKeys[0]"
    ),
    # selectors
    "selector: a text": Case("nodes: {policy: binpack}\nselector: app=train", "spec.selector"),
    "selector: plain labels": Case("nodes: {policy: binpack}\nselector: {app: train}", "spec.selector.app"),
    "selector: a bad key": Case(labels("matchLabels: {a b: c}"), "spec.nodeSelector.matchLabels"),
    "selector: an endless prefix": Case(labels(f"matchLabels: {{{'x' * 254}/a: b}}"), "spec.nodeSelector.matchLabels"),
    "selector: an endless prefix in an expression": Case(
        labels(f"matchExpressions: [{{key: {'x' * 254}/a, operator: Exists}}]"),
        "spec.nodeSelector.matchExpressions[0].key",
    ),
    "selector: a bad value": Case(labels('matchLabels: {a: "b c"}'), "spec.nodeSelector.matchLabels.a"),
    "selector: a number": Case(labels("matchLabels: {a: 1}"), "spec.nodeSelector.matchLabels.a"),
    "selector: In without values": Case(
        labels("matchExpressions: [{key: a, operator: In}]"), "spec.nodeSelector.matchExpressions[0].values"
    ),
    "selector: Exists with values": Case(
        labels("matchExpressions: [{key: a, operator: Exists, values: [b]}]"),
        "spec.nodeSelector.matchExpressions[0].values",
    ),
    "selector: operator of node affinity": Case(
        labels("matchExpressions: [{key: a, operator: Gt, values: ['1']}]"),
        "spec.nodeSelector.matchExpressions[0].operator",
    ),
    "selector: no key": Case(
        labels("matchExpressions: [{operator: Exists}]"), "spec.nodeSelector.matchExpressions[0].key"
    ),
    "selector: a bad key in an expression": Case(
        labels("matchExpressions: [{key: a/b/c, operator: Exists}]"), "spec.nodeSelector.matchExpressions[0].key"
    ),
    # defaults, limits, overrides
    "defaults: empty": Case("defaults: {}", "spec.defaults"),
    "defaults: zero memory": Case("defaults: {memory: 0}", "spec.defaults.memory"),
    "defaults: MiB without a unit": Case("defaults: {memory: 4096}", "spec.defaults.memory"),
    "defaults: milli instead of Mi": Case("defaults: {memory: 400m}", "spec.defaults.memory"),
    "defaults: no quantity": Case("defaults: {memory: 4GB}", "spec.defaults.memory"),
    "defaults: too much memory": Case("defaults: {memory: 2Pi}", "spec.defaults.memory"),
    "defaults: an exponent that never ends": Case('defaults: {memory: "1e99999999999"}', "spec.defaults.memory"),
    "defaults: a fraction": Case("defaults: {memory: 1.5}", "spec.defaults.memory"),
    "defaults: more than a card": Case("defaults: {cores: 101}", "spec.defaults.cores"),
    "limits: empty": Case("limits: {}", "spec.limits"),
    "limits: negative memory": Case("limits: {memoryPerPod: -4Gi}", "spec.limits.memoryPerPod"),
    "limits: negative cores": Case("limits: {coresPerPod: -1}", "spec.limits.coresPerPod"),
    "limits: a quantity of devices": Case('limits: {devicesPerPod: "2"}', "spec.limits.devicesPerPod"),
    "enforce: empty": Case("nodes: {policy: binpack}\nenforce: []", "spec.enforce"),
    "enforce: twice": Case("nodes: {policy: binpack}\nenforce: [nodes, nodes]", "spec.enforce"),
    "enforce: a section that adds up": Case("limits: {devicesPerPod: 1}\nenforce: [limits]", "spec.enforce[0]"),
    "enforce: a section that is not set": Case("nodes: {policy: binpack}\nenforce: [nodes, devices]", "spec.enforce"),
    "enforce: defaults that are not set": Case("nodes: {policy: binpack}\nenforce: [defaults]", "spec.enforce"),
    "enforce: nodes that are not set": Case("defaults: {cores: 1}\nenforce: [nodes]", "spec.enforce"),
    "enforce: a text": Case("nodes: {policy: binpack}\nenforce: nodes", "spec.enforce"),
    "enforce: in a namespaced policy": Case("nodes: {policy: binpack}\nenforce: [nodes]", "spec.enforce", NAMESPACED),
    "limits: cards of its own negative": Case("limits: {exclusiveCardsPerPod: -1}", "spec.limits.exclusiveCardsPerPod"),
    "limits: cards of its own a text": Case('limits: {exclusiveCardsPerPod: "1"}', "spec.limits.exclusiveCardsPerPod"),
    "preemption: empty": Case("preemption: {}", "spec.preemption"),
    "preemption: allowed by a namespace": Case(
        "preemption: {mayPreempt: true}", "spec.preemption.mayPreempt", NAMESPACED
    ),
    "preemption: protected by a namespace": Case(
        "preemption: {preemptible: false}", "spec.preemption.preemptible", NAMESPACED
    ),
    "preemption: others' pods by a namespace": Case(
        "preemption: {victims: Any}", "spec.preemption.victims", NAMESPACED
    ),
    "preemption: budgets exceeded by a namespace": Case(
        "preemption: {budgets: Exceed}", "spec.preemption.budgets", NAMESPACED
    ),
    "preemption: a text": Case('preemption: {mayPreempt: "true"}', "spec.preemption.mayPreempt"),
    "preemption: protection a number": Case("preemption: {preemptible: 1}", "spec.preemption.preemptible"),
    "preemption: a delay without a unit": Case("preemption: {delay: 30}", "spec.preemption.delay"),
    "preemption: a delay in text without a unit": Case('preemption: {delay: "30"}', "spec.preemption.delay"),
    "preemption: a negative delay": Case("preemption: {delay: -30s}", "spec.preemption.delay"),
    "preemption: a fraction": Case("preemption: {minRuntime: 1.5h}", "spec.preemption.minRuntime"),
    "preemption: days": Case("preemption: {minRuntime: 1d}", "spec.preemption.minRuntime"),
    "preemption: no time": Case('preemption: {minRuntime: ""}', "spec.preemption.minRuntime"),
    "preemption: an endless time": Case(f"preemption: {{delay: {'1' * 40}s}}", "spec.preemption.delay"),
    "preemption: victims unknown": Case("preemption: {victims: All}", "spec.preemption.victims"),
    "preemption: budgets unknown": Case("preemption: {budgets: Ignore}", "spec.preemption.budgets"),
    "preemption: evictions negative": Case("preemption: {perHour: -1}", "spec.preemption.perHour"),
    "preemption: too many evictions": Case("preemption: {perHour: 1001}", "spec.preemption.perHour"),
    "groups: empty": Case("groups: {}", "spec.groups"),
    "groups: a minimum of nothing": Case("groups: {minimum: 0}", "spec.groups.minimum"),
    "groups: a minimum in text": Case('groups: {minimum: "2"}', "spec.groups.minimum"),
    "groups: a minimum too high": Case("groups: {minimum: 100001}", "spec.groups.minimum"),
    "groups: a time without a unit": Case("groups: {staleAfter: 60}", "spec.groups.staleAfter"),
    "groups: in lower case": Case("groups: {whenStale: evict}", "spec.groups.whenStale"),
    "groups: kept by a namespace": Case("groups: {holdAfter: 1m}", "spec.groups.holdAfter", NAMESPACED),
    "groups: enforced": Case("groups: {minimum: 2}\nenforce: [groups]", "spec.enforce[0]"),
    "preemption: enforced": Case("preemption: {mayPreempt: true}\nenforce: [preemption]", "spec.enforce[0]"),
    "overrides: without allow": Case("podOverrides: {}", "spec.podOverrides.allow"),
    "overrides: an annotation": Case(
        "podOverrides: {allow: [hami.io/gpu-scheduler-policy]}", "spec.podOverrides.allow[0]"
    ),
    "overrides: twice": Case("podOverrides: {allow: [numa, numa]}", "spec.podOverrides.allow"),
}
