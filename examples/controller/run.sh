#!/usr/bin/env bash
# A real operator under an account that is too weak: the status says what is missing, it is granted, and the install goes
# on by itself. On the control plane of tests/cluster, with the controller as a process of its own account.
set -euo pipefail
cd "$(dirname "$0")/../.."
cli=$1 controller=$2
for tool in go kubectl; do
  command -v "$tool" >/dev/null || { echo "NOT RUN: $tool is needed for the control plane of this demonstration." >&2; exit 1; }
done
plane=$(tests/cluster/build.sh)
work=$(mktemp -d)
pid=
cleanup() {
  [[ -z $pid ]] || kill "$pid" 2>/dev/null || true
  "$plane" down --dir "$work/plane" >/dev/null
  rm -rf "$work"
}
trap cleanup EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }

"$plane" up --dir "$work/plane" --olm-v1 none >/dev/null 2>&1
export KUBECONFIG=$work/plane/kubeconfig
quietly() { "$@" >/dev/null; }

quietly kubectl create namespace operator-bounds
quietly kubectl apply -f config/controller/rbac.yaml -f examples/etcd/cluster/team-a.yaml
quietly kubectl create configmap etcd-bundle -n team-a --from-file=examples/etcd/etcdoperator.v0.9.4.yaml

# The controller's own kubeconfig: its account's token, and nothing of the administrator's.
cp "$KUBECONFIG" "$work/controller.kubeconfig"
kubectl --kubeconfig "$work/controller.kubeconfig" config set-credentials controller \
  --token "$(kubectl create token -n operator-bounds operator-bounds-controller)" >/dev/null
kubectl --kubeconfig "$work/controller.kubeconfig" config set-context --current --user controller >/dev/null
KUBECONFIG=$work/controller.kubeconfig "$controller" --install-plans --namespaces team-a --lease-namespace operator-bounds \
  --listen 127.0.0.1:0 --log-text 2>"$work/log" &
pid=$!

say "1. OLM has planned etcd 0.9.4 for team-a, whose OperatorGroup names the account installer. It holds too little:"
quietly kubectl apply -f examples/controller/plan.yaml
quietly kubectl patch installplan install-etcd -n team-a --subresource status --type merge --patch-file examples/controller/plan-status.yaml
quietly kubectl wait installplan/install-etcd -n team-a --for=jsonpath='{.status.conditions[0].reason}'=InstallComponentFailed --timeout=60s
show kubectl get installplan install-etcd -n team-a -o jsonpath='{.status.phase}{"\n"}{.status.message}{"\n"}'
show kubectl get csv,roles,deployments -n team-a

say "2. What is missing, as the command line derives it:"
mkdir "$work/dump"
kubectl get roles,rolebindings,serviceaccounts -n team-a -o yaml >"$work/dump/rbac.yaml"
kubectl get clusterroles,clusterrolebindings -o yaml >"$work/dump/cluster.yaml"
show "$cli" derive examples/etcd/etcdoperator.v0.9.4.yaml --for serviceaccount team-a/installer --missing --cluster "$work/dump" | tee "$work/missing.txt"
sed 1d "$work/missing.txt" >"$work/missing.yaml"

say "3. Granted. Nobody touches the plan:"
show kubectl apply -f "$work/missing.yaml"
quietly kubectl wait installplan/install-etcd -n team-a --for=jsonpath='{.status.phase}'=Complete --timeout=60s
quietly kubectl wait deployment/etcd-operator -n team-a --for=create --timeout=60s
quietly kubectl wait deployment/etcd-operator -n team-a --for=jsonpath='{.status.replicas}'=1 --timeout=60s
for pod in $(kubectl get pods -n team-a -o name); do # there are no nodes here: this stands in for them
  quietly kubectl patch -n team-a "$pod" --subresource status --type merge \
    -p '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}'
done
quietly kubectl wait csv/etcdoperator.v0.9.4 -n team-a --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s
show kubectl get installplan install-etcd -n team-a -o jsonpath='{.status.phase}, as {.status.attenuatedServiceAccountRef.name}{"\n"}'
show kubectl get csv,roles,deployments -n team-a
