// The page of `operator-bounds check --output html`, in a real browser.
// Environment: OPERATOR_BOUNDS (the binary), CHROMIUM (the browser), SCREENSHOT (where to put a picture, optional).

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { pathToFileURL } from "node:url";

import { Browser } from "./browser.mjs";

const root = join(import.meta.dirname, "../..");
const work = mkdtempSync(join(tmpdir(), "operator-bounds-page-"));
let browser;
let page;

// An operator that asks for many things, some of which are granted and some implied, and one that attacks whoever looks.
const operators = {
  "many.json": {
    apiVersion: "operators.coreos.com/v1alpha1", kind: "ClusterServiceVersion", metadata: { name: "many.v1", namespace: "team-a" },
    spec: {
      webhookdefinitions: [{ type: "MutatingAdmissionWebhook", deploymentName: "many", generateName: "m.example.com" }],
      install: { spec: {
        permissions: [{ serviceAccountName: "many", rules: [
          { apiGroups: [""], resources: ["services", "a-very-long-name-of-a-resource-that-nobody-would-have-thought-of-but-somebody-did"],
            verbs: ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*", "impersonate", "bind"] },
          { apiGroups: ["apps"], resources: ["deployments"], verbs: ["get", "create"] }] }],
        clusterPermissions: [{ serviceAccountName: "many", rules: [{ nonResourceURLs: ["/metrics"], verbs: ["get"] }] }],
        deployments: [{ name: "many", spec: { template: { spec: { serviceAccountName: "many" } } } }] } } },
  },
  "hostile.json": {
    apiVersion: "operators.coreos.com/v1alpha1", kind: "ClusterServiceVersion",
    metadata: { name: "\"><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>", namespace: "team-a" },
    spec: { install: { spec: { permissions: [{ serviceAccountName: "</pre><script>window.pwned = 1</script>", rules: [
      { apiGroups: ["<svg onload=window.pwned=1>"], resources: ["' autofocus onfocus='window.pwned=1"], verbs: ["</td><script>window.pwned=1</script>"] }] }] } } },
  },
};

function report(name, inputs) {
  const file = join(work, name);
  const run = spawnSync(process.env.OPERATOR_BOUNDS, ["check", ...inputs, "--output", "html", "--output-file", file], { cwd: work, encoding: "utf8" });
  assert.equal(run.status, 1, run.stderr);
  return pathToFileURL(file).href;
}

before(async () => {
  cpSync(join(root, "examples/etcd"), join(work, "etcd"), { recursive: true });
  mkdirSync(join(work, "more"));
  for (const [name, object] of Object.entries(operators)) writeFileSync(join(work, "more", name), JSON.stringify(object));
  page = report("page.html", ["etcd", "more"]);
  browser = await Browser.start(process.env.CHROMIUM);
});
beforeEach(async () => {
  await browser.send("Emulation.setDeviceMetricsOverride", { width: 1200, height: 900, deviceScaleFactor: 1, mobile: false });
  await browser.send("Emulation.setEmulatedMedia", { features: [] });
  await browser.open(page);
});
after(async () => {
  await browser.stop();
  rmSync(work, { recursive: true, force: true });
});

const visible = (selector) =>
  browser.evaluate(`[...document.querySelectorAll(${JSON.stringify(selector)})].filter((e) => e.checkVisibility()).map((e) => e.textContent.trim())`);
const choose = (id, value) =>
  browser.evaluate(`{ const e = document.getElementById("${id}"); e.value = ${JSON.stringify(value)}; e.dispatchEvent(new Event("input", { bubbles: true })); e.value }`);

test("nothing is loaded, nothing is logged, and no text of a manifest runs", async () => {
  await browser.evaluate("new Promise((done) => setTimeout(done, 300))");
  assert.equal(await browser.evaluate("typeof window.pwned"), "undefined");
  assert.equal(await browser.evaluate("document.querySelectorAll('img, svg, iframe, link, object, embed').length"), 0);
  assert.equal(await browser.evaluate("document.scripts.length"), 1);
  const requests = browser.events.filter((event) => event.method === "Network.requestWillBeSent").map((event) => event.params.request.url);
  assert.deepEqual(requests, [page]);
  const logged = browser.events.filter((event) => ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"].includes(event.method));
  assert.deepEqual(logged.map((event) => event.params), []);
});

test("the security policy lets no other script run", async () => {
  await browser.evaluate("{ const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s) }");
  await browser.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned = 1\">')");
  await browser.evaluate("new Promise((done) => setTimeout(done, 200))");
  assert.equal(await browser.evaluate("typeof window.pwned"), "undefined");
});

test("the matrix shows what is covered, missing and implied", async () => {
  const cell = (row, verb) => browser.evaluate(`(() => {
    const table = [...document.querySelectorAll("table")].find((t) => [...t.rows].some((r) => r.cells[0].textContent.trim() === ${JSON.stringify(row)}));
    const column = [...table.rows[0].cells].findIndex((c) => c.textContent === ${JSON.stringify(verb)});
    return [...table.rows].find((r) => r.cells[0].textContent.trim() === ${JSON.stringify(row)}).cells[column].className; })()`);
  assert.equal(await cell("secrets core", "get"), "missing");
  assert.equal(await cell("mutatingwebhookconfigurations admissionregistration.k8s.io", "create"), "missing implied");
  const services = await browser.evaluate(`[...document.querySelectorAll("tr")].filter((r) => r.cells[0].textContent.trim() === "services core").map((r) => r.querySelectorAll("td.covered").length)`);
  assert.deepEqual(services, [0, 4]);
});

test("filters narrow it down by text, verdict, scope and permission", async () => {
  assert.equal((await visible(".object")).length, 4);
  await choose("text", "etcdclusters");
  assert.deepEqual(await visible(".object h2 bdi"), ["ClusterServiceVersion team-a/etcdoperator.v0.9.4"]);
  assert.deepEqual(await visible("tbody th"), ["etcdclusters etcd.database.coreos.com"]);
  await choose("text", "many.v1");
  assert.deepEqual(await visible(".object h2 bdi"), ["ClusterServiceVersion team-a/many.v1"]);
  await choose("scope", "cluster-wide");
  assert.deepEqual(await visible(".scope h3"), ["cluster-wide"]);
  await choose("cells", "implied");
  assert.ok((await visible("tbody th")).every((row) => !row.includes("/metrics")));
  await choose("scope", ""); await choose("cells", "covered");
  assert.deepEqual(await visible("tbody th"), ["deployments apps", "services core"]);
  await choose("cells", ""); await choose("text", ""); await choose("status", "admitted");
  assert.deepEqual(await visible(".object h2 bdi"), ["OperatorGroup team-a/og"]);
  assert.deepEqual(await visible("#shown"), ["1 object"]);
  await choose("text", "no such thing");
  assert.deepEqual(await visible("#nothing"), ["Nothing matches."]);
});

test("the button copies the RBAC to paste", async () => {
  await browser.send("Browser.grantPermissions", { permissions: ["clipboardReadWrite", "clipboardSanitizedWrite"] });
  await browser.send("Page.bringToFront");
  await browser.evaluate("document.querySelector('[data-copies]').click()");
  while (await browser.evaluate("document.querySelector('[data-copies]').textContent") === "Copy");
  assert.equal(await browser.evaluate("document.querySelector('[data-copies]').textContent"), "Copied");
  const copied = await browser.evaluate("navigator.clipboard.readText()");
  assert.match(copied, /^apiVersion: rbac\.authorization\.k8s\.io\/v1\nkind: (Cluster)?Role\n/m);
  assert.equal(copied.trim(), (await browser.evaluate("document.getElementById(document.querySelector('[data-copies]').dataset.copies).textContent")).trim());
});

test("dark follows the system, and the button turns it round", async () => {
  const ground = () => browser.evaluate("getComputedStyle(document.body).backgroundColor");
  const light = await ground();
  await browser.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "dark" }] });
  const dark = await ground();
  assert.notEqual(dark, light);
  await browser.evaluate("document.getElementById('theme').click()");
  assert.equal(await ground(), light);
  await browser.evaluate("document.getElementById('theme').click()");
  assert.equal(await ground(), dark);
});

// Contrast as the accessibility guidelines define it: 4.5 for text.
const CONTRAST = `(() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => { const [r, g, b] = parse(c).map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if ((parse(c)[3] ?? 1) > 0) return c; } return "rgb(255,255,255)"; };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
    const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (contrast < 4.5) bad.push(e.tagName + "." + e.className + " " + contrast.toFixed(2));
  }
  return [...new Set(bad)];
})()`;

test("every text stands out from its ground, light and dark", async () => {
  for (const value of ["light", "dark"]) {
    await browser.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
    assert.deepEqual(await browser.evaluate(CONTRAST), [], value);
  }
});

test("on a phone the page does not scroll sideways, and its tables can be reached by keyboard", async () => {
  await browser.send("Emulation.setDeviceMetricsOverride", { width: 360, height: 740, deviceScaleFactor: 2, mobile: true });
  assert.equal(await browser.evaluate("document.documentElement.scrollWidth"), 360);
  assert.ok(await browser.evaluate("[...document.querySelectorAll('.scroll')].some((e) => e.scrollWidth > e.clientWidth)"), "a wide table scrolls by itself");
  assert.ok(await browser.evaluate("[...document.querySelectorAll('.scroll')].every((e) => e.tabIndex === 0 && e.getAttribute('aria-label'))"));
  assert.ok(await browser.evaluate("[...document.querySelectorAll('table')].every((t) => t.caption && t.querySelector('th[scope=col]') && t.querySelector('th[scope=row]'))"));
});

test("everything can be reached and has a name", async () => {
  const { nodes } = await browser.send("Accessibility.getFullAXTree");
  const named = nodes.filter((node) => ["button", "searchbox", "combobox", "region", "link"].includes(node.role?.value) && !node.ignored);
  assert.ok(named.length > 8);
  assert.deepEqual(named.filter((node) => !node.name?.value).map((node) => node.role.value), []);
});

test("without a script the page still tells everything", async () => {
  await browser.send("Emulation.setScriptExecutionDisabled", { value: true });
  await browser.open(page);
  assert.ok((await visible("tbody th")).includes("etcdclusters etcd.database.coreos.com"));
  assert.deepEqual(await visible("form, button"), []);
  await browser.send("Emulation.setScriptExecutionDisabled", { value: false });
});

// The example, with some of what it needs granted already, so that there is something of everything to see.
const granted = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: etcd, namespace: team-a}
rules:
- {apiGroups: [""], resources: [pods, services, events], verbs: ["*"]}
- {apiGroups: [etcd.database.coreos.com], resources: [etcdclusters], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: etcd, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: etcd}
subjects: [{kind: ServiceAccount, name: installer, namespace: team-a}]
`;

test("a picture for the README", { skip: !process.env.SCREENSHOT && "no picture wanted" }, async () => {
  writeFileSync(join(work, "etcd/granted.yaml"), granted);
  await browser.send("Emulation.setDeviceMetricsOverride", { width: 960, height: 900, deviceScaleFactor: 1, mobile: false });
  await browser.open(report("picture.html", ["etcd/etcdoperator.v0.9.4.yaml", "--cluster", "etcd/cluster", "etcd/granted.yaml"]));
  writeFileSync(process.env.SCREENSHOT, await browser.screenshot());
});
