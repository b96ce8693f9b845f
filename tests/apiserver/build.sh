#!/usr/bin/env bash
# Builds what the tests run beside the operator: etcd, the Kubernetes control plane, kubectl, Helm, controllers of jobs,
# Kueue, what koordlet does with a pod.
#
# `build.sh MODULE…` builds modules and prints their folders; with Go, that takes minutes the first time:
#   kubernetes  etcd, kube-apiserver, kubectl, kube-controller-manager, kube-scheduler
#   helm        Helm
#   controllers the controllers of JobSet and LeaderWorkerSet, with the folders config of their modules
#   kueue       Kueue, with the folder config of its module
#   koordlet    koordlet-hooks: what koordlet gives the containers of pods (koordlet/main.go)
#   older       an API server of a version that does less, beside the same etcd and kubectl
# `build.sh --find MODULE` builds nothing and prints the module's folder.
#
# The binaries go into ${XDG_CACHE_HOME:-~/.cache}/vgpu-scheduler, where later runs find them. KUBEBUILDER_ASSETS, when
# set, is used instead of the module kubernetes. Progress goes to standard error.
# Exit status: 3 if a module has to be built and Go is not there, 4 if --find finds nothing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/vgpu-scheduler"
build=yes
if [ "${1:-}" = --find ]; then
  build=no
  shift
fi

required() { # prints the version of a requirement
  awk -v name="$1" '$1 == name && NF > 1 {print $2} $1 == "require" && $2 == name {print $3}' "$here/$folder/go.mod"
}

describe() { # sets what is known of a module
  case $1 in
    kubernetes) folder=. requirement=k8s.io/kubernetes name=kubernetes minutes=7
      binaries=(etcd kube-apiserver kubectl kube-controller-manager kube-scheduler) ;;
    older) folder=older requirement=k8s.io/kubernetes name=kubernetes minutes=4 binaries=(kube-apiserver) ;;
    helm) folder=helm requirement=helm.sh/helm/v4 name=helm minutes=3 binaries=(helm) ;;
    controllers) folder=controllers requirement=sigs.k8s.io/jobset name=controllers minutes=3 binaries=(jobset lws) ;;
    kueue) folder=kueue requirement=sigs.k8s.io/kueue name=kueue minutes=4 binaries=(kueue) ;;
    koordlet) folder=koordlet requirement=github.com/koordinator-sh/koordinator name=koordlet minutes=4 binaries=(koordlet-hooks) ;;
    *) echo "build.sh: there is no module $1" >&2; exit 2 ;;
  esac
  version=$(required "$requirement")
  if [ "$1" = controllers ]; then version="$version-$(required sigs.k8s.io/lws)"; fi
  if [ "$1" = koordlet ]; then version="$version-$(sha256sum "$here/koordlet/main.go" | head -c 8)"; fi
  assets="$cache/$name-$version"
}

complete() {
  for binary in "${binaries[@]}"; do [ -x "$assets/$binary" ] || return 1; done
}

without_perf() { # copies koordlet's module but for the counters of its performance, which need a library in C
  local module=github.com/koordinator-sh/koordinator copy=$assets/.module counters=pkg/koordlet/util/perf_group
  rm -rf "$copy"
  (cd "$here/koordlet" && go mod download && cp -r "$(go list -m -f '{{.Dir}}' $module)" "$copy") >&2
  chmod -R u+w "$copy"
  rm "$copy/$counters/perf_group_linux.go"
  sed -i '/^\/\/ *+build\|^\/\/go:build/d' "$copy/$counters/perf_group_unsupported.go"
  cp "$here/koordlet/go.sum" "$assets/.koordlet.sum"
  cp "$here/koordlet/go.mod" "$assets/.koordlet.mod"
  go mod edit -replace "$module=$copy" "$assets/.koordlet.mod"
}

compile() {
  local flags major minor pkg number=0 more=()
  IFS=. read -r major minor _ <<<"${version#v}"
  pkg=k8s.io/component-base/version
  flags="-s -w -X $pkg.gitVersion=$version -X $pkg.gitMajor=$major -X $pkg.gitMinor=$minor"
  if [ "$1" = helm ]; then flags="-s -w -X helm.sh/helm/v4/internal/version.version=$version"; fi
  if [ "$1" = controllers ] || [ "$1" = kueue ] || [ "$1" = koordlet ]; then flags="-s -w"; fi
  mkdir -p "$assets"
  exec 9>"$cache/build.lock"
  if ! flock --nonblock 9; then
    echo "waiting for another build to end" >&2
    flock 9 # two test runs on one machine build once
  fi
  for binary in "${binaries[@]}"; do
    number=$((number + 1))
    [ -x "$assets/$binary" ] && continue
    echo "building $binary $version ($number/${#binaries[@]}), ${SECONDS} s so far; $1 takes about $minutes minutes on two cores" >&2
    package=./cmd/$binary
    if [ "$1" = helm ]; then package=helm.sh/helm/v4/cmd/helm; fi
    if [ "$1" = controllers ] || [ "$1" = kueue ]; then
      package=sigs.k8s.io/$binary
      rm -rf "$assets/$binary.config"
      (cd "$here/$folder" && go mod download && cp -r "$(go list -m -f '{{.Dir}}' "$package")/config" "$assets/$binary.config")
      chmod -R u+w "$assets/$binary.config"
      if [ "$binary" = lws ]; then package=$package/cmd; fi
      if [ "$binary" = kueue ]; then package=$package/cmd/kueue; fi
    fi
    if [ "$1" = koordlet ]; then
      package=.
      without_perf
      more=(-modfile "$assets/.koordlet.mod")
    fi
    (cd "$here/$folder" && CGO_ENABLED=0 go build "${more[@]}" -trimpath -ldflags "$flags" -o "$assets/.$binary" "$package") 9>&- >&2
    mv "$assets/.$binary" "$assets/$binary"
    rm -rf "$assets/.module"
  done
  exec 9>&-
  echo "$name $version ready after ${SECONDS} s: $assets" >&2
}

link_to_newest() { # all but the API server
  local binary newest
  newest=$(describe kubernetes && echo "${KUBEBUILDER_ASSETS:-$assets}")
  for binary in etcd kubectl kube-controller-manager kube-scheduler; do ln -sf "$newest/$binary" "$assets/$binary"; done
}

for module in "$@"; do
  describe "$module"
  if [ "$module" = kubernetes ] && [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
    echo "$KUBEBUILDER_ASSETS"
    continue
  fi
  if ! complete; then
    if [ $build = no ]; then exit 4; fi
    if ! command -v go >/dev/null 2>&1; then
      echo "the real API server, Helm and the controllers are built with Go 1.26 or newer, which is not there; KUBEBUILDER_ASSETS may name the API server's binaries instead" >&2
      exit 3
    fi
    compile "$module"
  fi
  if [ "$module" = older ] && [ $build = yes ]; then link_to_newest; fi
  echo "$assets"
done
