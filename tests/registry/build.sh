#!/usr/bin/env bash
# Prints the path of a registry's program: Debian's docker-registry when it is installed, else the CNCF distribution
# registry, built once from its Go module into a cache outside the repository. Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=tests/parts/cache.sh
. ../parts/cache.sh

say() { echo "$*" >&2; }
fail() { say "build.sh: $*"; exit 2; }

if installed=$(command -v docker-registry); then
  echo "$installed"
  exit
fi

built=$cache/registry-$(cache_hash build.sh go.mod go.sum main.go)
if [[ -x $built ]]; then
  cache_used "$built"
  echo "$built"
  exit
fi

command -v go >/dev/null ||
  fail "there is no registry to test with. Install Go 1.26 or later (https://go.dev/dl), or Debian's package docker-registry."

mkdir -p "$cache"
building=$(mktemp "$cache/building.XXXXXX")
trap 'rm -f "$building"' EXIT
began=$SECONDS
export CGO_ENABLED=0 GOWORK=off
total=$(go list -deps . | wc -l)
say "==> the distribution registry, about $total packages (cold 1 to 3 minutes, then seconds)"
nice go build -buildvcs=false -trimpath -ldflags '-s -w' -v -o "$building" . 2>&1 | awk -v total="$total" '
  # With -v the compiler names every package that it compiles; everything else that it prints is of interest.
  /^[A-Za-z0-9._\/~+-]+$/ { if (++n % 100 == 0) { printf "  %d of at most %d packages\n", n, total; fflush() } next }
  { print; fflush() }' >&2 || fail "the build failed, see above"
chmod 0755 "$building"
mv "$building" "$built"
cache_prune registry
say "==> built in $((SECONDS - began)) s, $(($(wc -c <"$built") / 1000000)) MB"
echo "$built"
