#!/usr/bin/env bash
# Prints the path of a real part on stdout: what is on PATH, else what the shared directory has, unpacked once into a cache,
# else what can be built from Go modules. Progress goes to stderr.
#
#   find.sh kwctl | policy-server | olm | catalog | opm | operator-controller | catalogd | operator-controller-1.10.0 | catalogd-1.10.0
#
# Exit codes: 0 found, 2 could not be unpacked or built, 3 there is none; a line on stderr says which of them, and what to do.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/parts/cache.sh
. "$here/cache.sh"
shared=${OPERATOR_BOUNDS_SHARED:-$here/../../../shared}

say() { echo "$*" >&2; }
fail() { say "find.sh: $*"; exit 2; }

part=${1:-}
packed='' # its name in the shared directory, without .xz
words=''  # what it prints when it is what it is called: some of these names are anybody's
ask=(--version)
build=''
where=''
boxcutter='' # a module that OLM v1 needs, in the very version that its release asks for
case $part in
kwctl | policy-server) packed=$part words=$part where="https://github.com/kubewarden/kubewarden-controller/releases" ;;
olm | catalog) packed=$part-0.46.0 words='OLM version' build=build_olm_v0 ;;
opm) packed=opm words=OpmVersion ask=(version) build=build_olm_v0 ;;
operator-controller | catalogd) packed=$part-1.11.0 words='version: ' ask=(version) build=build_olm_v1 boxcutter=boxcutter-0.14.0 ;;
operator-controller-1.10.0 | catalogd-1.10.0) packed=$part words='version: ' ask=(version) build=build_olm_v1 boxcutter=boxcutter-0.13.1 ;;
*) fail "there is no part called '$part'" ;;
esac

# is_it PROGRAM: whether it is what its name says.
is_it() { local said; said=$("$1" "${ask[@]}" 2>&1 || true) && [[ ${said//\\\"/\"} == *"$words"* ]]; }

# once FAMILY HASH COMMAND…: prints the program's path in a cache entry; if it is not there, COMMAND makes it, given a directory
# to put it into.
once() {
  local family=$1 entry=$cache/$1-$2 making
  shift 2
  if [[ ! -x $entry/$part ]]; then
    mkdir -p "$cache"
    making=$(mktemp -d "$cache/building.XXXXXX")
    # shellcheck disable=SC2064 # the directory is this one
    trap "rm -rf '$making'" EXIT
    "$@" "$making" || fail "$part could not be made, see above"
    chmod -R u+w,a+rX "$making"
    mkdir -p "$entry"
    mv -f "$making"/* "$entry"/ # one file at a time, each by a rename: somebody else may be doing the same
    rm -rf "$making"
    cache_prune "$family"
  fi
  cache_used "$entry"
  echo "$entry/$part"
}

unpack() {
  say "==> unpacking $packed"
  xz -dc "$shared/bin/$packed.xz" >"$1/$part" && chmod 0755 "$1/$part"
}

need_go() {
  command -v go >/dev/null || { say "There is no $part: it would have to be built, and Go is not on PATH. Install Go 1.26 or later (https://go.dev/dl)."; exit 3; }
}

# go_build DIRECTORY-TO-PUT-IT-INTO TAGS PACKAGE…
go_build() {
  local into=$1 tags=$2
  shift 2
  CGO_ENABLED=0 GOWORK=off nice go build -buildvcs=false -trimpath -ldflags '-s -w' -tags "$tags" -o "$into/" "$@" >&2
}

build_olm_v0() {
  say "==> OLM v0 and opm, from their Go modules (cold 5 to 10 minutes, then seconds)"
  local modules=github.com/operator-framework
  (cd "$here/olm-v0" && go_build "$1" containers_image_openpgp,json1 \
    $modules/operator-lifecycle-manager/cmd/{olm,catalog} $modules/operator-registry/cmd/opm)
}

# OLM v1 needs a module that the proxy does not serve: its source is in the shared directory.
build_olm_v1() {
  local version=v1.11.0 into=$1 work downloaded
  [[ $part != *-1.10.0 ]] || version=v1.10.0
  say "==> OLM $version, from its Go module (cold 5 to 10 minutes, then seconds)"
  work=$(mktemp -d "$into/work.XXXXXX")
  downloaded=$(cd "$work" && GOWORK=off go mod download -json "github.com/operator-framework/operator-controller@$version")
  cp -r "$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$downloaded")" "$work/olm"
  chmod -R u+w "$work/olm"
  mkdir "$work/boxcutter" && tar -xJf "$shared/bin/$boxcutter.tar.xz" -C "$work/boxcutter" --strip-components 1
  (cd "$work/olm" && go mod edit -replace "pkg.package-operator.run/boxcutter=$work/boxcutter" &&
    GOFLAGS=-mod=mod go_build "$into" containers_image_openpgp ./cmd/operator-controller ./cmd/catalogd)
  chmod -R u+w "$work" && rm -rf "$work"
  [[ $version == v1.11.0 ]] || { mv "$into/operator-controller" "$into/operator-controller-1.10.0"; mv "$into/catalogd" "$into/catalogd-1.10.0"; }
}

if installed=$(command -v "$part") && is_it "$installed"; then
  echo "$installed"
  exit
fi
if [[ -n $packed && -r $shared/bin/$packed.xz ]]; then
  once parts "$(cache_hash "$shared/bin/$packed.xz")" unpack
  exit
fi
case $build in
build_olm_v0) need_go && once olm-v0 "$(cache_hash "$here/olm-v0/go.mod" "$here/olm-v0/go.sum")" build_olm_v0 && exit ;;
build_olm_v1)
  if [[ -r $shared/bin/$boxcutter.tar.xz ]]; then
    need_go && once olm-v1 "$(cache_hash "$shared/bin/$boxcutter.tar.xz" "$here/find.sh")" build_olm_v1 && exit
  fi
  where="https://github.com/operator-framework/operator-controller/releases, or put the source of a module that no proxy serves there ($boxcutter.tar.xz)"
  ;;
esac
say "There is no $part: it is not on PATH, and not in $shared/bin${packed:+ ($packed.xz)}.${where:+ Install it from $where.}"
exit 3
