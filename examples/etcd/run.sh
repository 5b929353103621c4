#!/usr/bin/env bash
# The main job in three commands: a real operator is refused, the missing RBAC is derived, and it is admitted.
set -euo pipefail
cd "$(dirname "$0")"
bin=${1:-operator-bounds}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp cluster/team-a.yaml "$work/"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
show() { printf '$ %s\n' "$1"; }

say "1. OLM wants to install etcd 0.9.4 in team-a. Its OperatorGroup names the account installer, which holds less:"
show "operator-bounds eval --request-path request.json --cluster cluster/ --output text"
"$bin" eval --request-path request.json --cluster "$work" --output text

say "2. The RBAC that is missing:"
show "operator-bounds derive etcdoperator.v0.9.4.yaml --for serviceaccount team-a/installer --missing --cluster cluster/"
"$bin" derive etcdoperator.v0.9.4.yaml --for serviceaccount team-a/installer --missing --cluster "$work" | tee "$work/.granted"

say "3. Applied, the same request:"
mv "$work/.granted" "$work/granted.yaml"
show "operator-bounds eval --request-path request.json --cluster cluster/ --output text"
"$bin" eval --request-path request.json --cluster "$work" --output text
