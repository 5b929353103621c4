# Part of smoke.sh: the ValidatingAdmissionPolicy that says which extensions of OLM v1 may register admission webhooks.
policy=operator-bounds-olm-v1-webhook-configurations
list=operator-bounds-webhook-extensions
olm=system:serviceaccount:olmv1-system:operator-controller-controller-manager

# configuration NAME EXTENSION [OPERATION]: a webhook configuration as OLM v1 writes it for an extension.
configuration() {
  cat <<YAML
apiVersion: admissionregistration.k8s.io/v1
kind: ${kind:-ValidatingWebhookConfiguration}
metadata:
  name: $1
  labels:
    olm.operatorframework.io/owner-kind: ClusterExtension
    olm.operatorframework.io/owner-name: $2
webhooks:
  - name: $1.example.com
    clientConfig: {url: "https://127.0.0.1:1/"}
    rules: [{apiGroups: [""], apiVersions: [v1], resources: [nothings], operations: [${3:-CREATE}]}]
    failurePolicy: Ignore
    sideEffects: None
    admissionReviewVersions: [v1]
YAML
}
# write WHO NAME EXTENSION [OPERATION]
write() { local who=$1; shift; configuration "$@" | kubectl apply --server-side --as "$who" --field-manager smoke -f -; }
# refusing: the policy's binding is in force. The API server takes a moment to see it; a probe that came too early must not
# stay, for what is there may be written again unchanged.
refusing() { says "may not register" probe; }
probe() { configuration probe nobody-listed | kubectl apply --server-side --dry-run=server --as "$olm" --field-manager smoke -f -; }

kubectl create namespace kubewarden >/dev/null
# OLM v1 writes everything with cluster-admin; without it RBAC would refuse first.
kubectl create clusterrolebinding olm-v1 --clusterrole cluster-admin --user "$olm" >/dev/null
kubectl create clusterrolebinding somebody --clusterrole cluster-admin --user somebody >/dev/null
write "$olm" early before >/dev/null # installed before the policy

is "it is accepted" kubectl apply --server-side -f "$metadata/olm-v1-webhook-configurations.yaml"
# The types are checked on the copy in which every expression is a validation, see expressions/.
checked() { says '"observedGeneration":1' kubectl get validatingadmissionpolicy "$1" -o 'jsonpath={.status}'; }
warnings() { kubectl get validatingadmissionpolicy "$1" -o 'jsonpath={"warnings:"}{.status.typeChecking.expressionWarnings}{"."}'; }
is "its types are checked" eventually checked $policy
is "... without warnings" says "warnings:." warnings $policy
is "... also those of its variables and match conditions" eventually checked $policy-types
is "... without warnings" says "warnings:." warnings $policy-types
sed -n "s/$policy-types/mistaken/; /mistaken/s/oldObject\.webhooks/oldObject.webhoks/gp" "$dir/expressions.json" | kubectl apply --server-side -f - >/dev/null
is "... which a mistake would have" eventually says "undefined field 'webhoks'" warnings mistaken
kubectl delete validatingadmissionpolicy mistaken $policy-types >/dev/null
is "it comes into force" eventually refusing

refused "an extension that is not on the list is refused" "ClusterExtension cert-manager may not register admission webhooks" write "$olm" hooks cert-manager
kind=MutatingWebhookConfiguration refused "... for mutating webhooks too" "ClusterExtension cert-manager may not register" write "$olm" hooks cert-manager
refused "an owner that is nobody's label is refused" "without the labels of a ClusterExtension" \
  bash -c 'sed "s/owner-kind: .*/owner-kind: Other/" | kubectl apply --server-side --as '"$olm"' -f -' <<<"$(configuration hooks cert-manager)"
is "another user is free" write somebody others cert-manager
kubectl patch configmap $list -n kubewarden --type merge --patch '{"data":{"cert-manager":"wanted"}}' >/dev/null
is "an extension that is put on the list is admitted" eventually write "$olm" hooks cert-manager
is "... and may change its webhooks" write "$olm" hooks cert-manager UPDATE
refused "another one is still refused" "ClusterExtension other may not register" write "$olm" other other
is "what was there before may have its metadata changed" kubectl label --as "$olm" validatingwebhookconfiguration early some=label
refused "... but not its webhooks" "ClusterExtension before may not register" write "$olm" early before UPDATE
is "... and may be deleted" kubectl delete --as "$olm" validatingwebhookconfiguration early
kubectl delete configmap $list -n kubewarden >/dev/null
is "without the list everything is refused" eventually says "no params found" write "$olm" hooks cert-manager CONNECT
kubectl delete -f "$metadata/olm-v1-webhook-configurations.yaml" --ignore-not-found >/dev/null
