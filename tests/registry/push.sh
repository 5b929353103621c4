#!/usr/bin/env bash
# `make push`, as a person would use it: to a registry on loopback, and back by tag and by digest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."

dir=$(mktemp -d)
registry=
trap '[[ -z $registry ]] || { kill "$registry"; wait "$registry"; } 2>/dev/null || true; rm -rf "$dir"' EXIT
fail() { echo "push.sh: $*" >&2; exit 1; }

cat >"$dir/config.yml" <<YAML
version: 0.1
storage: {filesystem: {rootdirectory: "$dir/data"}}
http: {addr: "127.0.0.1:0"}
YAML
program=$("$here/build.sh")
OTEL_TRACES_EXPORTER=none "$program" serve "$dir/config.yml" >"$dir/log" 2>&1 &
registry=$!
for _ in $(seq 300); do
  address=$(sed -n 's/.*listening on \(127\.0\.0\.1:[0-9]*\).*/\1/p' "$dir/log")
  [[ -z $address ]] || break
  kill -0 "$registry" 2>/dev/null || fail "the registry did not start: $(cat "$dir/log")"
  sleep 0.1
done
[[ -n $address ]] || fail "the registry does not listen: $(cat "$dir/log")"

# kwctl speaks plain HTTP only to those registries that it is told about.
export DOCKER_CONFIG=$dir XDG_CONFIG_HOME=$dir
mkdir -p "$dir/kubewarden"
echo "insecure_sources: [\"$address\"]" >"$dir/kubewarden/sources.yml"

said=$(make --no-print-directory push 2>&1) && fail "a push to nowhere succeeded"
[[ $said == *"make push REGISTRY="* ]] || fail "a push to nowhere says: $said"

repository=$address/policies/operator-bounds
make --no-print-directory push REGISTRY="$repository:v0.1.0" | tee "$dir/pushed"
reference=$(grep -o 'registry://[^ ]*@sha256:[0-9a-f]\{64\}' "$dir/pushed" | tail -1) || fail "no digest was printed"

pull() { target/debug/push-policy pull "$1" --output "$2"; }
for name in "$repository:v0.1.0" "$reference"; do
  pulled=$(pull "$name" "$dir/pulled.wasm")
  [[ $pulled == "$reference" ]] || fail "$name came back as $pulled and not as $reference"
  cmp annotated-policy.wasm "$dir/pulled.wasm" || fail "$name came back with other bytes"
done
echo "pushed, and pulled by tag and by digest: ${reference#*@}, $(wc -c <"$dir/pulled.wasm") bytes"
