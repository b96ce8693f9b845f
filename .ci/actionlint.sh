#!/usr/bin/env bash
# Checks the workflows with actionlint, built once from its Go module into ${XDG_CACHE_HOME:-~/.cache}/vgpu-scheduler.
# Without Go it says that it checks nothing, and fails where everything has to run (REQUIRE_APISERVER=1).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=v1.7.12
folder="${XDG_CACHE_HOME:-$HOME/.cache}/vgpu-scheduler/actionlint-$version"
if [ ! -x "$folder/actionlint" ]; then
  if ! command -v go > /dev/null; then
    echo "the workflows are NOT checked: actionlint is built with Go, which is not there" >&2
    [ "${REQUIRE_APISERVER:-}" != 1 ]
    exit
  fi
  echo "building actionlint $version, once" >&2
  mkdir -p "$folder/new"
  GOBIN="$folder/new" go install -trimpath "github.com/rhysd/actionlint/cmd/actionlint@$version" > /dev/null
  mv "$folder/new/actionlint" "$folder/actionlint"
fi
# What shellcheck and pyflakes would add depends on what is installed.
exec "$folder/actionlint" -shellcheck= -pyflakes= .github/workflows/*.yaml
