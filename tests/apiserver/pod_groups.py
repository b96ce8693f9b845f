"""What switches Kubernetes' own PodGroups on, with their topology and priority."""

VERSION = "scheduling.k8s.io/v1alpha2"
GATES = "GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"
FEATURES = f"--feature-gates={','.join(f'{gate}=true' for gate in GATES)}"
"""For each process of the control plane."""
API_FLAGS = (FEATURES, f"--runtime-config={VERSION}=true")
