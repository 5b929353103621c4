#!/usr/bin/env bash
# A real operator on disk, refused, explained, its RBAC derived and granted, and accepted. Every command can be repeated here.
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)
bin=${1:-operator-bounds}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source/cluster" "$source/etcdoperator.v0.9.4.yaml" "$work"
cd "$work"

say() { printf '\n%s\n' "$*"; }
[ ! -t 1 ] || say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
operator-bounds() { printf '$ operator-bounds %s\n' "$*"; "$bin" "$@"; }

say "1. etcd 0.9.4 for team-a, whose OperatorGroup holds it to the account installer. It asks for more:"
operator-bounds check etcdoperator.v0.9.4.yaml --cluster cluster/ || true

say "2. Only what is missing, ready to apply:"
printf '$ operator-bounds derive etcdoperator.v0.9.4.yaml --for serviceaccount team-a/installer \\\n'
printf '    --missing --cluster cluster/ | tee granted.yaml\n'
"$bin" derive etcdoperator.v0.9.4.yaml --for serviceaccount team-a/installer --missing --cluster cluster/ | tee granted.yaml

say "3. Granted and checked again:"
printf '$ cp granted.yaml cluster/      # in a cluster: kubectl apply -f granted.yaml\n'
cp granted.yaml cluster/
operator-bounds check etcdoperator.v0.9.4.yaml --cluster cluster/
