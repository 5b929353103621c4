#!/usr/bin/env bash
# Builds the control plane once, into a cache outside the repository, and prints the binary's path on stdout. Progress
# goes to stderr. The cache's name is a hash of everything that is built, so a change builds anew and nothing else does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=tests/parts/cache.sh
. ../parts/cache.sh

say() { echo "$*" >&2; }
fail() { say "build.sh: $*"; exit 2; }

# shellcheck disable=SC2046 # names without spaces
built=$cache/control-plane-$(cache_hash build.sh crds.txt go.mod go.sum main.go $(LC_ALL=C ls plane/*.go | grep -v _test.go))
if [[ -x $built/control-plane ]]; then
  cache_used "$built"
  echo "$built/control-plane"
  exit
fi

command -v go >/dev/null || fail "Go is not on PATH. Install Go 1.26 or later (https://go.dev/dl); nothing else is needed."

mkdir -p "$cache"
building=$(mktemp -d "$cache/building.XXXXXX")
trap 'rm -rf "$building"' EXIT
began=$SECONDS

# Outside any module, so that these downloads leave go.mod and go.sum alone. Two versions of one module could not both be
# in a go.mod anyway; hence the checksums of our own.
say "==> OLM's CustomResourceDefinitions"
while read -r generation module sum folders; do
  [[ $generation != \#* ]] || continue
  downloaded=$(cd "$building" && GOWORK=off go mod download -json "$module") ||
    fail "cannot download $module: $downloaded"
  grep -qF "\"Sum\": \"$sum\"" <<<"$downloaded" || fail "$module is not what crds.txt says it is ($sum): $downloaded"
  dir=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$downloaded")
  mkdir -p "$building/crds/$generation"
  for folder in $folders; do
    # Not `cp` alone: files of the module cache are read-only, and so would be the copies.
    install -m 0644 "$dir/$folder"/*.yaml "$building/crds/$generation/"
  done
done <crds.txt

export CGO_ENABLED=0 GOWORK=off
total=$(go list -deps . | wc -l)
say "==> kube-apiserver, kube-controller-manager and etcd, about $total packages (cold 6 to 16 minutes, then seconds)"
nice go build -buildvcs=false -trimpath -ldflags '-s -w' -v -o "$building/control-plane" . 2>&1 | awk -v total="$total" '
  # With -v the compiler names every package that it compiles; everything else that it prints is of interest.
  /^[A-Za-z0-9._\/~+-]+$/ { if (++n % 100 == 0) { printf "  %d of at most %d packages\n", n, total; fflush() } next }
  { print; fflush() }' >&2 || fail "the build failed, see above"

# For those who have no kubectl of their own.
printf '#!/bin/sh\nexec "$(dirname "$0")/control-plane" kubectl "$@"\n' >"$building/kubectl"
chmod 0755 "$building" "$building/kubectl"
[[ -e $built ]] || mv "$building" "$built" # another build.sh may have been faster
cache_prune control-plane
say "==> built in $((SECONDS - began)) s, $(($(wc -c <"$built/control-plane") / 1000000)) MB"
echo "$built/control-plane"
