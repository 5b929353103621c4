#!/usr/bin/env bash
# A real operator on disk: refused, explained, its RBAC derived and granted, and accepted. Every command that is shown can be
# repeated in a copy of this directory.
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)
bin=${1:-operator-bounds}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source/cluster" "$source/etcdoperator.v0.9.4.yaml" "$work"
cd "$work"

bold=$(if [ -t 1 ]; then printf '\033[1m'; fi)
plain=$(if [ -t 1 ]; then printf '\033[0m'; fi)
say() { printf '%s%s%s\n' "$bold" "$*" "$plain"; }
operator-bounds() { "$bin" "$@"; }
# Shows a command, then runs it. A refusal is no failure here.
run() { printf '$ %s\n' "$1"; (eval "$1" || [ $? -eq 1 ]) 2>&1 | fold -s -w 100; }

say "1. etcd 0.9.4 for team-a, whose OperatorGroup holds it to the account installer: refused"
run "operator-bounds check etcdoperator.v0.9.4.yaml --cluster cluster/"
say "2. Explained: who bounds it, and what that account holds"
run "operator-bounds check etcdoperator.v0.9.4.yaml --cluster cluster/ --explain etcdoperator.v0.9.4 |
    sed -n '/^Boundary/,/^Asked/p' | sed '\$d'"
say "3. The RBAC that is missing, derived: each rule says where it comes from"
run "operator-bounds derive etcdoperator.v0.9.4.yaml --for serviceaccount team-a/installer \\
    --missing --cluster cluster/ | tee granted.yaml | sed -n '/^rules/,/^---/p'"
say "4. Granted (in a cluster: kubectl apply -f granted.yaml), and accepted"
run "cp granted.yaml cluster/"
run "operator-bounds check etcdoperator.v0.9.4.yaml --cluster cluster/"
