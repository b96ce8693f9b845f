#!/usr/bin/env bash
# Runs the Dockerfile's steps on a root file system of Debian's packages (bookworm, Python 3.11.2), without a registry:
# `debian-image.sh` prints the folder of the result, in which are `root`, the files, and `config.json`, its configuration.
# `debian-image.sh --find` builds nothing and prints the folder.
#
# It needs root. buildah and mmdebstrap are installed where they are missing and apt-get is there. Packages come from where
# apt and pip of this machine take theirs. All is kept in ${XDG_CACHE_HOME:-~/.cache}/vgpu-scheduler, and built anew when a
# file that the image is made of has changed: a minute for Debian's packages, once, and three for the image.
# Exit status: 3 if it cannot be built on this machine, 4 if --find finds nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/vgpu-scheduler/debian-image"
packages=python3,python3-venv,python-is-python3,ca-certificates
inputs=(Dockerfile .dockerignore .ci/debian-image.sh pyproject.toml constraints.txt README.md LICENSE operator)
digest=$(find "${inputs[@]}" -type f ! -path '*/__pycache__/*' ! -path '*.egg-info/*' -print0 | sort -z | xargs -0 sha256sum | sha256sum)
built="$cache/${digest:0:16}"

if [ -e "$built/config.json" ]; then
  echo "$built"
  exit
fi
if [ "${1:-}" = --find ]; then exit 4; fi
if [ "$(id -u)" != 0 ]; then
  echo "the image is not built on Debian's packages: that needs root" >&2
  exit 3
fi
if ! command -v buildah > /dev/null || ! command -v mmdebstrap > /dev/null; then
  if ! command -v apt-get > /dev/null; then
    echo "the image is not built on Debian's packages: buildah, mmdebstrap and apt-get are not there" >&2
    exit 3
  fi
  echo "installing buildah and mmdebstrap" >&2
  { apt-get update && apt-get install --yes --no-install-recommends buildah mmdebstrap; } > /dev/null
fi

mkdir -p "$cache"
exec 9> "$cache/lock"
flock 9
if [ -e "$built/config.json" ]; then # by whoever had the lock
  echo "$built"
  exit
fi
work=$(mktemp -d "$cache/work.XXXXXX") # not in /tmp, where there may be no room for it
export TMPDIR="$work"
storage=(--root "$work/store" --runroot "$work/run" --storage-driver overlay)
clean() {
  buildah "${storage[@]}" umount --all > /dev/null 2>&1 || true
  umount "$work/store/overlay" 2> /dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean EXIT

base="$cache/bookworm-$(sha256sum <<< "$packages" | head -c 16).tar"
if [ ! -e "$base" ]; then
  echo "making a root file system of Debian's packages" >&2
  sources=()
  if grep -qs VERSION_CODENAME=bookworm /etc/os-release && [ -e /etc/apt/sources.list.d/debian.sources ]; then
    sources=(/etc/apt/sources.list.d/debian.sources)
  fi
  mmdebstrap --quiet --variant=minbase --include="$packages" bookworm "$work/base.tar" "${sources[@]}" >&2
  mv "$work/base.tar" "$base"
fi

echo "building the image on it" >&2
scratch=$(buildah "${storage[@]}" from scratch)
buildah "${storage[@]}" add --quiet "$scratch" "$base" / > /dev/null
buildah "${storage[@]}" commit --quiet --rm "$scratch" localhost/base > /dev/null
# Where pip takes packages from, and whom it trusts, is this machine's affair: neither gets into the image.
python3 -m pip config list | sed -n -E "s/^(global|install|:env:)\.(index-url|extra-index-url|trusted-host|proxy|timeout|cert)=/\2=/p" \
  | tr -d "'" | sed "s|^cert=.*|cert=/etc/ssl/certs/ca-certificates.crt|" | sort -u | { echo "[global]"; cat; } > "$work/pip.conf"
trusted=()
if [ -d /etc/ssl/certs ]; then trusted=(--volume /etc/ssl/certs:/etc/ssl/certs:ro); fi
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
buildah "${storage[@]}" bud --isolation chroot "${trusted[@]}" --secret "id=pip,src=$work/pip.conf" \
  --build-arg BASE=localhost/base --build-arg "VERSION=$version" --tag localhost/vgpu-scheduler . >&2

container=$(buildah "${storage[@]}" from localhost/vgpu-scheduler)
mounted=$(buildah "${storage[@]}" mount "$container")
mkdir "$work/built"
cp --archive "$mounted" "$work/built/root"
buildah "${storage[@]}" inspect --type image --format '{{.Config}}' localhost/vgpu-scheduler > "$work/built/config.json"
find "$cache" -mindepth 1 -maxdepth 1 -type d -name '????????????????' -exec rm -rf {} + # of earlier states of the tree
mv "$work/built" "$built"
echo "$built"
