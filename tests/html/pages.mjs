// The pages under test: manifests put together, and the command line that makes a page of them.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const root = join(import.meta.dirname, "../..");
const RBAC = "rbac.authorization.k8s.io";

const csv = (name, namespace, spec) => ({
  apiVersion: "operators.coreos.com/v1alpha1", kind: "ClusterServiceVersion", metadata: { name, namespace }, spec });

// An operator that asks for many things, some of which are granted and some implied, and one that attacks whoever looks.
export const operators = {
  "many.json": csv("many.v1", "team-a", {
    webhookdefinitions: [{ type: "MutatingAdmissionWebhook", deploymentName: "many", generateName: "m.example.com" }],
    install: { spec: {
      permissions: [{ serviceAccountName: "many", rules: [
        { apiGroups: [""], resources: ["services", "a-very-long-name-of-a-resource-that-nobody-would-have-thought-of-but-somebody-did"],
          verbs: ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*", "impersonate", "bind"] },
        { apiGroups: ["apps"], resources: ["deployments"], verbs: ["get", "create"] }] }],
      clusterPermissions: [{ serviceAccountName: "many", rules: [
        { nonResourceURLs: ["/metrics"], verbs: ["get"] },
        { apiGroups: ["*"], resources: ["*"], verbs: ["*"] }] }],
      deployments: [{ name: "many", spec: { template: { spec: { serviceAccountName: "many" } } } }] } } }),
  "hostile.json": csv("\"><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>", "team-a", {
    install: { spec: { permissions: [{ serviceAccountName: "</pre><script>window.pwned = 1</script>", rules: [
      { apiGroups: ["<svg onload=window.pwned=1>"], resources: ["' autofocus onfocus='window.pwned=1"], verbs: ["</td><script>window.pwned=1</script>"] }] }] } } }),
};

// A page that the command line writes; where it is, as a URL.
export function report(work, name, args, expected = 1) {
  const file = join(work, name);
  const run = spawnSync(process.env.OPERATOR_BOUNDS, [...args, "--output", "html", "--output-file", file], { cwd: work, encoding: "utf8" });
  assert.equal(run.status, expected, run.stderr);
  return pathToFileURL(file).href;
}

// Says what was not tried, so that CI notices.
export function notRun(what) {
  spawnSync(join(root, "tests/parts/not-run.sh"), [what], { stdio: "inherit" });
}

// The real operators, unpacked; nothing where they are not there.
export function corpus(work) {
  const archive = join(process.env.OPERATOR_BOUNDS_CORPUS ?? join(root, "../shared/corpus"), "csv.tar.gz");
  if (!existsSync(archive)) return undefined;
  const directory = join(work, "corpus");
  mkdirSync(directory);
  const unpacked = spawnSync("tar", ["-xzf", archive, "-C", directory], { encoding: "utf8" });
  assert.equal(unpacked.status, 0, unpacked.stderr);
  return join(directory, "csv");
}

const role = (namespace, name, rules) => ({
  apiVersion: `${RBAC}/v1`, kind: namespace ? "Role" : "ClusterRole", metadata: { name, ...(namespace && { namespace }) }, rules });
const binding = (namespace, name, to, account) => ({
  apiVersion: `${RBAC}/v1`, kind: namespace ? "RoleBinding" : "ClusterRoleBinding", metadata: { name, ...(namespace && { namespace }) },
  roleRef: { apiGroup: RBAC, kind: namespace ? "Role" : "ClusterRole", name: to }, subjects: [account] });
const account = (namespace, name) => ({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace } });
const subject = (namespace, name) => ({ kind: "ServiceAccount", name, namespace });

// A cluster with these operators, each in a namespace of its own, with the RBAC that OLM writes for it. `bound` may name an account.
export function cluster(work, name, csvs, bound = () => undefined) {
  const items = [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: "kube-system" } }, account("kube-system", "default"),
    role(undefined, "cluster-admin", [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }]),
    binding(undefined, "cluster-admin", "cluster-admin", { apiGroup: RBAC, kind: "Group", name: "system:masters" }),
    role("kube-system", "nothing", []), binding("kube-system", "nothing", "nothing", subject("kube-system", "default")),
  ];
  csvs.forEach((csv, number) => {
    const namespace = `team-${number}`;
    const installer = bound(csv);
    const modes = csv.spec.installModes ?? [];
    const all = modes.some((mode) => mode.type === "AllNamespaces" && mode.supported);
    items.push({ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    items.push({ apiVersion: "operators.coreos.com/v1", kind: "OperatorGroup", metadata: { name: "group", namespace },
      spec: { ...(!all && { targetNamespaces: [namespace] }), ...(installer && { serviceAccountName: installer }) } });
    if (installer) items.push(account(namespace, installer));
    items.push({ ...csv, apiVersion: "operators.coreos.com/v1alpha1", metadata: { name: csv.metadata.name, namespace, uid: `u${number}` } });
    for (const [list, lifted] of [["permissions", all], ["clusterPermissions", true]]) {
      (csv.spec.install?.spec?.[list] ?? []).forEach((entry, position) => {
        const within = lifted ? undefined : namespace;
        const called = `${csv.metadata.name}-${number}-${list}-${position}`;
        const labels = { "olm.owner": csv.metadata.name, "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": namespace };
        const both = [role(within, called, entry.rules ?? []), binding(within, called, called, subject(namespace, entry.serviceAccountName || "default"))];
        for (const object of both) { object.metadata.labels = labels; items.push(object); }
      });
    }
  });
  const directory = join(work, name);
  mkdirSync(directory);
  writeFileSync(join(directory, "cluster.json"), JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  return directory;
}

export const read = (directory) => readdirSync(directory).sort().map((name) => JSON.parse(readFileSync(join(directory, name), "utf8")));
