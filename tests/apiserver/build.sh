#!/usr/bin/env bash
# Builds etcd, the Kubernetes control plane and kubectl for the tests and prints the folder that holds them.
#
# KUBEBUILDER_ASSETS, when set, is used as it is and nothing is built. Otherwise the binaries go into
# ${XDG_CACHE_HOME:-~/.cache}/vgpu-scheduler/kubernetes-<version>, where later runs find them.
# Progress goes to standard error; without Go the exit status is 3.
#
# `build.sh older` builds an API server of a version that does less (the module in older/), beside the same etcd and kubectl.
set -euo pipefail

module=${1:-.}
if [ "$module" = . ] && [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  echo "$KUBEBUILDER_ASSETS"
  exit 0
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ "$module" != . ]; then newest=$("${BASH_SOURCE[0]}"); fi
version=$(awk '$1 == "k8s.io/kubernetes" {print $2}' "$here/$module/go.mod")
cache="${XDG_CACHE_HOME:-$HOME/.cache}/vgpu-scheduler"
assets="$cache/kubernetes-$version"
binaries=(etcd kube-apiserver kubectl kube-controller-manager kube-scheduler)
if [ "$module" != . ]; then binaries=(kube-apiserver); fi

complete() {
  for binary in "${binaries[@]}"; do [ -x "$assets/$binary" ] || return 1; done
}

mkdir -p "$assets"
if [ "$module" != . ]; then
  for binary in etcd kubectl kube-controller-manager kube-scheduler; do ln -sf "$newest/$binary" "$assets/$binary"; done
fi
if complete; then
  echo "$assets"
  exit 0
fi
if ! command -v go >/dev/null 2>&1; then
  echo "building the test API server needs Go 1.26 or newer, or KUBEBUILDER_ASSETS naming its binaries" >&2
  exit 3
fi

exec 9>"$cache/build.lock"
flock 9  # two test runs on one machine build once
IFS=. read -r major minor _ <<<"${version#v}"
pkg=k8s.io/component-base/version
flags="-s -w -X $pkg.gitVersion=$version -X $pkg.gitMajor=$major -X $pkg.gitMinor=$minor"
started=$SECONDS
number=0
for binary in "${binaries[@]}"; do
  number=$((number + 1))
  [ -x "$assets/$binary" ] && continue
  echo "building $binary $version ($number/${#binaries[@]}), $((SECONDS - started)) s so far; about 7 minutes the first time" >&2
  (cd "$here/$module" && CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$assets/.$binary" "./cmd/$binary") >&2
  mv "$assets/.$binary" "$assets/$binary"
done
echo "test API server ready after $((SECONDS - started)) s: $assets" >&2
echo "$assets"
