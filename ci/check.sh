#!/usr/bin/env bash
# Runs `operator-bounds check` on manifests of a repository: on those that PATHS names, a line each, or on those that have
# changed since BASE. Everything comes by the environment, so that nothing of a pull request is ever read as a command:
#   PATHS, BASE, CLUSTER, NAMESPACE, SETTINGS, OUTPUT, KEEP_GOING
# Exit code: 0 bounded, 1 refused, 2 could not tell.
set -euo pipefail

files=()
if [ -n "${PATHS:-}" ]; then
  while IFS= read -r path; do
    if [ -n "$path" ]; then files+=("$path"); fi
  done <<<"$PATHS"
else
  base=${BASE:-}
  # A new branch has nothing before it: then everything counts.
  if [ -z "$base" ] || [[ "$base" =~ ^0+$ ]]; then base=$(git hash-object -t tree /dev/null); fi
  if ! git cat-file -e "$base" 2>/dev/null; then
    echo "check.sh: commit $base is not here: fetch the whole history (actions/checkout with fetch-depth: 0)" >&2
    exit 2
  fi
  list=$(mktemp)
  trap 'rm -f "$list"' EXIT
  # All of them: `check` itself knows what is no Kubernetes object, and a search for words could be talked past.
  git diff -z --relative --name-only --diff-filter=d "$base" HEAD -- '*.yaml' '*.yml' '*.json' >"$list"
  while IFS= read -r -d '' file; do files+=("$file"); done <"$list"
fi

if [ "${#files[@]}" -eq 0 ]; then
  echo "operator-bounds: no manifest has changed"
  exit 0
fi
arguments=(--output "${OUTPUT:-github}")
if [ -n "${CLUSTER:-}" ]; then arguments+=(--cluster "$CLUSTER"); fi
if [ -n "${NAMESPACE:-}" ]; then arguments+=(--namespace "$NAMESPACE"); fi
if [ -n "${SETTINGS:-}" ]; then arguments+=(--settings-path "$SETTINGS"); fi
if [ "${KEEP_GOING:-false}" = true ]; then arguments+=(--keep-going); fi
exec operator-bounds check "${arguments[@]}" -- "${files[@]}"
