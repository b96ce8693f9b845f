#!/usr/bin/env bash
# Builds etcd, the Kubernetes control plane and kubectl for the tests and prints the folder that holds them.
#
# KUBEBUILDER_ASSETS, when set, is used as it is and nothing is built. Otherwise the binaries go into
# ${XDG_CACHE_HOME:-~/.cache}/vgpu-scheduler/kubernetes-<version>, where later runs find them.
# Progress goes to standard error; without Go the exit status is 3.
#
# `build.sh older` builds an API server of a version that does less (the module in older/), beside the same etcd and kubectl.
# `build.sh helm` builds Helm (the module in helm/) into a folder of its own.
set -euo pipefail

module=${1:-.}
if [ "$module" = . ] && [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  echo "$KUBEBUILDER_ASSETS"
  exit 0
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case $module in
  .) requirement=k8s.io/kubernetes binaries=(etcd kube-apiserver kubectl kube-controller-manager kube-scheduler) ;;
  older) requirement=k8s.io/kubernetes binaries=(kube-apiserver) newest=$("${BASH_SOURCE[0]}") ;;
  helm) requirement=helm.sh/helm/v4 binaries=(helm) ;;
esac
version=$(awk -v name="$requirement" '$1 == name {print $2} $1 == "require" && $2 == name {print $3}' "$here/$module/go.mod")
cache="${XDG_CACHE_HOME:-$HOME/.cache}/vgpu-scheduler"
name=kubernetes
if [ "$module" = helm ]; then name=helm; fi
assets="$cache/$name-$version"

complete() {
  for binary in "${binaries[@]}"; do [ -x "$assets/$binary" ] || return 1; done
}

mkdir -p "$assets"
if [ "$module" = older ]; then
  for binary in etcd kubectl kube-controller-manager kube-scheduler; do ln -sf "$newest/$binary" "$assets/$binary"; done
fi
if complete; then
  echo "$assets"
  exit 0
fi
if ! command -v go >/dev/null 2>&1; then
  echo "building the test API server and Helm needs Go 1.26 or newer, or KUBEBUILDER_ASSETS naming the API server's binaries" >&2
  exit 3
fi

exec 9>"$cache/build.lock"
flock 9  # two test runs on one machine build once
IFS=. read -r major minor _ <<<"${version#v}"
pkg=k8s.io/component-base/version
flags="-s -w -X $pkg.gitVersion=$version -X $pkg.gitMajor=$major -X $pkg.gitMinor=$minor"
if [ "$module" = helm ]; then flags="-s -w -X helm.sh/helm/v4/internal/version.version=$version"; fi
started=$SECONDS
number=0
for binary in "${binaries[@]}"; do
  number=$((number + 1))
  [ -x "$assets/$binary" ] && continue
  echo "building $binary $version ($number/${#binaries[@]}), $((SECONDS - started)) s so far; about 7 minutes the first time" >&2
  package=./cmd/$binary
  if [ "$module" = helm ]; then package=helm.sh/helm/v4/cmd/helm; fi
  (cd "$here/$module" && CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$assets/.$binary" "$package") >&2
  mv "$assets/.$binary" "$assets/$binary"
done
echo "$name $version ready after $((SECONDS - started)) s: $assets" >&2
echo "$assets"
