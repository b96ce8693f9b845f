// Does with pods what koordlet does when the container runtime asks it about each of their containers, by koordlet's
// own code: its server of the Node Resource Interface, with its hooks for GPUs and RDMA devices.
//
// It reads {"pods": […], "devices": […]} from standard input, objects of Kubernetes and of Koordinator, and writes
// {"pods": [{CONTAINER: {"env": …, "mounts": …, "devices": …}}], "devices": […]}: what each container of each pod gets,
// and what is left of the Device objects once they went through koordlet's own type; a field that it does not know is
// an error. With an argument, that folder is the root of the node's file system.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"

	schedulingv1alpha1 "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/resourceexecutor"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/hooks"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/hooks/gpu"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/hooks/rdma"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/nri"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/util/system"
	rmconfig "github.com/koordinator-sh/koordinator/pkg/runtimeproxy/config"
)

type mount struct {
	Source      string   `json:"source"`
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Options     []string `json:"options"`
}

type injection struct {
	Env     map[string]string `json:"env"`
	Mounts  []mount           `json:"mounts"`
	Devices []string          `json:"devices"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var input struct {
		Pods    []corev1.Pod      `json:"pods"`
		Devices []json.RawMessage `json:"devices"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	server, err := newServer()
	if err != nil {
		return err
	}
	if len(os.Args) > 1 {
		if err := syscall.Chroot(os.Args[1]); err != nil {
			return fmt.Errorf("root %s: %w", os.Args[1], err)
		}
	}
	output := struct {
		Pods    []map[string]injection      `json:"pods"`
		Devices []schedulingv1alpha1.Device `json:"devices"`
	}{[]map[string]injection{}, []schedulingv1alpha1.Device{}}
	for _, pod := range input.Pods {
		created, err := createContainers(server, &pod)
		if err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		output.Pods = append(output.Pods, created)
	}
	for _, text := range input.Devices {
		device, err := decodeDevice(text)
		if err != nil {
			return err
		}
		output.Devices = append(output.Devices, device)
	}
	return json.NewEncoder(os.Stdout).Encode(output)
}

// newServer makes koordlet's server with the two hooks that read allocations, and never starts it: nobody listens at
// the socket, which only has to be there. Like koordlet without flags it goes on after a hook has failed.
func newServer() (*nri.NriServer, error) {
	socket, err := os.CreateTemp("", "nri")
	if err != nil {
		return nil, err
	}
	defer os.Remove(socket.Name())
	defer socket.Close()
	system.Conf.VarRunRootDir = "/"
	executor := resourceexecutor.NewResourceUpdateExecutor()
	executor.Run(make(chan struct{}))
	gpu.Object().Register(hooks.Options{})
	rdma.Object().Register(hooks.Options{})
	return nri.NewNriServer(nri.Options{
		NriPluginName:       "koordlet_nri",
		NriPluginIdx:        "00",
		NriSocketPath:       socket.Name(),
		PluginFailurePolicy: rmconfig.PolicyIgnore,
		Executor:            executor,
	})
}

// createContainers asks about each container of a pod, with what a container runtime knows of the pod.
func createContainers(server *nri.NriServer, pod *corev1.Pod) (map[string]injection, error) {
	sandbox := &api.PodSandbox{
		Id:          "sandbox",
		Name:        pod.Name,
		Uid:         string(pod.UID),
		Namespace:   pod.Namespace,
		Labels:      pod.Labels,
		Annotations: pod.Annotations,
		Linux:       &api.LinuxPodSandbox{},
	}
	created := map[string]injection{}
	for _, container := range append(append([]corev1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		asked := &api.Container{Id: container.Name, PodSandboxId: sandbox.Id, Name: container.Name}
		adjusted, _, err := server.CreateContainer(context.Background(), sandbox, asked)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", container.Name, err)
		}
		got := injection{Env: map[string]string{}, Mounts: []mount{}, Devices: []string{}}
		for _, env := range adjusted.GetEnv() {
			got.Env[env.Key] = env.Value
		}
		for _, m := range adjusted.GetMounts() {
			got.Mounts = append(got.Mounts, mount{m.Source, m.Destination, m.Type, m.Options})
		}
		for _, device := range adjusted.GetLinux().GetDevices() {
			got.Devices = append(got.Devices, device.Path)
		}
		created[container.Name] = got
	}
	return created, nil
}

func decodeDevice(text json.RawMessage) (schedulingv1alpha1.Device, error) {
	var device schedulingv1alpha1.Device
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&device); err != nil {
		return device, fmt.Errorf("Device: %w", err)
	}
	return device, nil
}
