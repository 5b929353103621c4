#!/usr/bin/env bash
# Brings a control plane up, holds it to what the other tests rely on, and brings it down again.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
metadata=$here/../../policy-metadata
for tool in kubectl curl pgrep; do
  command -v $tool >/dev/null || { echo "smoke.sh: $tool is not on PATH: install it, then run this again" >&2; exit 2; }
done

plane=$("$here/build.sh")
dir=$(mktemp -d)
trap '"$plane" down --dir "$dir" >/dev/null; rm -rf "$dir"' EXIT

passed=0 failed=0
pass() { passed=$((passed + 1)); echo "ok    $1"; }
fail() { failed=$((failed + 1)); echo "FAIL  $1"; sed 's/^/      /' <<<"${2:-}"; }
# is SENTENCE COMMAND…: the command succeeds.
is() { local what=$1 said; shift; if said=$("$@" 2>&1); then pass "$what"; else fail "$what" "$said"; fi; }
# refused SENTENCE WORDS COMMAND…: the command fails, and says these words.
refused() {
  local what=$1 words=$2 said; shift 2
  if said=$("$@" 2>&1); then fail "$what" "not refused: $said"
  elif [[ $said == *"$words"* ]]; then pass "$what"
  else fail "$what" "refused for another reason: $said"; fi
}
# eventually COMMAND…: the command succeeds within half a minute.
eventually() { for _ in $(seq 60); do "$@" >/dev/null 2>&1 && return; sleep 0.5; done; "$@"; }
# says WORDS COMMAND…: the command's output, whatever its exit code, has these words.
says() { local words=$1 said; shift; said=$("$@" 2>&1) || true; [[ $said == *"$words"* ]] || { echo "$said"; return 1; }; }

"$plane" up --dir "$dir"
export KUBECONFIG=$dir/kubeconfig
server=$(kubectl config view -o 'jsonpath={.clusters[0].cluster.server}')

echo "==> the cluster"
is "the API server is ready" kubectl get --raw /readyz
refused "a user without rights is refused by RBAC" 'User "nobody" cannot list resource "pods"' kubectl get pods --as nobody
is "an anonymous request is refused" says Unauthorized curl -sS --cacert "$dir/pki/ca.crt" "$server/readyz"
is "the plain administrator is not in system:masters" says '["system:authenticated"]' kubectl --context operator-bounds-plain auth whoami -o 'jsonpath={.status.userInfo.groups}'
is "... and may do everything by a binding" kubectl --context operator-bounds-plain auth can-i '*' '*'
for crd in clusterserviceversions.operators.coreos.com operatorgroups.operators.coreos.com subscriptions.operators.coreos.com \
  installplans.operators.coreos.com clusterextensions.olm.operatorframework.io; do
  is "$crd is served" kubectl get "$crd"
done
kubectl create namespace tenant >/dev/null
is "the API server comes back after a crash" "$plane" restart --dir "$dir"
is "... with what was in it" kubectl get namespace tenant
is "... and control-plane has a kubectl of its own" "$plane" kubectl get namespace tenant
is "a namespace gets its default service account" eventually kubectl get serviceaccount default -n tenant
is "an account's token is accepted" says "system:serviceaccount:tenant:default" \
  kubectl --kubeconfig /dev/null --server "$server" --certificate-authority "$dir/pki/ca.crt" \
  --token "$(kubectl create token default -n tenant)" auth whoami
kubectl apply -f - >/dev/null <<'YAML'
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: part, labels: {smoke: part}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: whole}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {smoke: part}}]}
rules: []
YAML
is "an aggregated ClusterRole is filled" eventually says configmaps kubectl get clusterrole whole -o 'jsonpath={.rules}'
kubectl delete namespace tenant --wait=false >/dev/null
is "a deleted namespace goes away" eventually says NotFound kubectl get namespace tenant

echo "==> the expressions in policy-metadata compile"
(cd "$here" && GOWORK=off go run -buildvcs=false ./expressions "$metadata"/*.yaml) >"$dir/expressions.json"
while read -r object; do
  name=$(sed 's/.*"metadata":{"name":"\([^"]*\)".*/\1/' <<<"$object")
  is "$name" kubectl apply --server-side -f - <<<"$object"
done <"$dir/expressions.json"
broken=$(sed -n '/"matchConditions"/{s/"expression":"/&nonsense(/;p;q;}' "$dir/expressions.json")
refused "... and one that does not compile would be refused" "compilation failed" kubectl apply --server-side --force-conflicts -f - <<<"$broken"
kubectl delete validatingwebhookconfigurations --all >/dev/null

if [[ -e $metadata/olm-v1-webhook-configurations.yaml ]]; then
  echo "==> olm-v1-webhook-configurations.yaml"
  source "$here/smoke-webhook-configurations.sh"
else
  "$here/../parts/not-run.sh" "policy-metadata/olm-v1-webhook-configurations.yaml is not there"
fi

echo "==> several at once, and the end"
"$plane" status --dir "$dir"
refused "a second cluster in the same directory is refused" "there is a cluster" "$plane" up --dir "$dir"
port=${server##*:}
refused "a port in use is said" "port $port of 127.0.0.1 cannot be used" "$plane" up --dir "$dir/second" --port "$port"
# Assets as envtest brings them, without a controller manager; they say that they were used.
mkdir "$dir/assets"
for name in etcd kube-apiserver; do
  printf '#!/bin/sh\ntouch "%s/used-%s"\nexec "%s" %s "$@"\n' "$dir" $name "$plane" $name >"$dir/assets/$name"
  chmod +x "$dir/assets/$name"
done
is "a second cluster comes up beside it, from KUBEBUILDER_ASSETS" says "has no kube-controller-manager: the built-in one is used" \
  env KUBEBUILDER_ASSETS="$dir/assets" "$plane" up --dir "$dir/second" --name second --olm-v1 required-experimental
is "... which were used" ls "$dir/used-etcd" "$dir/used-kube-apiserver"
is "... with the schema of OLM v1 that was asked for" says spec.serviceAccount env KUBECONFIG="$dir/second/kubeconfig" kubectl create -f - <<'YAML'
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata: {name: no-account}
spec: {namespace: default, source: {sourceType: Catalog, catalog: {packageName: some}}}
YAML
kill -9 "$(cat "$dir/second/kube-apiserver.pid")"
is "the status of a dead API server shows the end of its log" says "the end of $dir/second/kube-apiserver.log" "$plane" status --dir "$dir/second"
is "what is left of it is stopped" "$plane" down --dir "$dir/second"
# The starter is killed in the middle of its work.
"$plane" up --dir "$dir/third" >/dev/null 2>&1 & starter=$!
eventually test -s "$dir/third/kube-apiserver.pid"
kill -9 $starter; wait $starter 2>/dev/null || true
is "a cluster whose starter was killed is stopped" "$plane" down --dir "$dir/third"
is "the first is stopped" "$plane" down --dir "$dir"
refused "... and its status says so" "not running" "$plane" status --dir "$dir"
left() { pgrep -fl -- "$dir/" || echo none; }
is "no process is left that was started for any of them" says none left

echo "smoke: $passed passed, $failed failed"
((failed == 0))
