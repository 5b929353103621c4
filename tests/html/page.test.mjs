// The pages of `check` and `audit` with `--output html`, in a real browser.
// Environment: OPERATOR_BOUNDS (the binary), CHROMIUM (the browser), SCREENSHOTS (a directory for pictures, optional).

import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Browser } from "./browser.mjs";
import { cluster, corpus, notRun, operators, read, report, root } from "./pages.mjs";

const work = mkdtempSync(join(tmpdir(), "operator-bounds-page-"));
let browser;
let page;
let audited;

before(async () => {
  cpSync(join(root, "examples/etcd"), join(work, "etcd"), { recursive: true });
  mkdirSync(join(work, "more"));
  for (const [name, object] of Object.entries(operators)) writeFileSync(join(work, "more", name), JSON.stringify(object));
  page = report(work, "page.html", ["check", "etcd", "more"]);
  const small = { ...operators["many.json"], metadata: { name: "small.v1" }, spec: { install: { spec: {
    permissions: [{ serviceAccountName: "small", rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }] }],
    deployments: [{ name: "small", spec: { template: { spec: { serviceAccountName: "small" } } } }] } } } };
  const lacking = { ...small, metadata: { name: "lacking.v1" } };
  const dump = cluster(work, "dump", [...Object.values(operators), small, lacking], (csv) => csv === lacking ? "installer" : undefined);
  audited = report(work, "audit.html", ["audit", "--cluster", dump]);
  browser = await Browser.start(process.env.CHROMIUM);
});
beforeEach(async () => {
  await browser.send("Emulation.setDeviceMetricsOverride", { width: 1200, height: 900, deviceScaleFactor: 1, mobile: false });
  await browser.send("Emulation.setEmulatedMedia", { media: "", features: [] });
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
const click = (id) => browser.evaluate(`document.getElementById("${id}").click()`);
const press = async (key, code, windowsVirtualKeyCode) => {
  const event = { key, code, windowsVirtualKeyCode, text: key.length === 1 ? key : undefined };
  await browser.send("Input.dispatchKeyEvent", { type: "keyDown", ...event });
  await browser.send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
};

for (const [what, url] of [["check", () => page], ["audit", () => audited]]) {
  test(`${what}: nothing is loaded, nothing is logged, and no text of a manifest runs`, async () => {
    await browser.open(url());
    await click("open");
    await browser.evaluate("new Promise((done) => setTimeout(done, 300))");
    assert.equal(await browser.evaluate("typeof window.pwned"), "undefined");
    assert.equal(await browser.evaluate("document.querySelectorAll('img, svg, iframe, link, object, embed').length"), 0);
    assert.equal(await browser.evaluate("document.scripts.length"), 1);
    const requests = browser.events.filter((event) => event.method === "Network.requestWillBeSent").map((event) => event.params.request.url);
    assert.deepEqual(requests, [url()]);
    const logged = browser.events.filter((event) => ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"].includes(event.method));
    assert.deepEqual(logged.map((event) => event.params), []);
  });
}

test("the security policy lets no other script run", async () => {
  await browser.evaluate("{ const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s) }");
  await browser.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned = 1\">')");
  await browser.evaluate("new Promise((done) => setTimeout(done, 200))");
  assert.equal(await browser.evaluate("typeof window.pwned"), "undefined");
});

test("an overview comes first, the worst at its top, and each folds open", async () => {
  const names = await visible(".object .name bdi");
  assert.deepEqual(names.slice(0, 1), ["many.v1"], "refused and cluster-admin");
  assert.deepEqual(names.slice(-1), ["og"], "admitted");
  assert.match((await visible(".object .is-admin"))[0], /yes: everything/);
  assert.deepEqual(await visible(".object .inside"), [], "closed from the start");
  await browser.evaluate("document.querySelector('.object > summary').focus()");
  await press(" ", "Space", 32);
  assert.equal((await visible(".object .inside")).length, 1, "opened by keyboard");
  await click("open");
  assert.equal((await visible(".object .inside")).length, 4);
  await click("close");
  assert.deepEqual(await visible(".object .inside"), []);
});

test("the matrix shows what is covered, missing and implied, with every verb first", async () => {
  await click("open");
  const cell = (row, verb) => browser.evaluate(`(() => {
    const table = [...document.querySelectorAll("table")].find((t) => [...t.rows].some((r) => r.cells[0].textContent.trim() === ${JSON.stringify(row)}));
    const column = [...table.rows[0].cells].findIndex((c) => c.textContent.trim() === ${JSON.stringify(verb)});
    const found = [...table.rows].find((r) => r.cells[0].textContent.trim() === ${JSON.stringify(row)});
    return [found.className, found.cells[column].className].join(" ").trim(); })()`);
  assert.equal(await cell("secrets core", "get"), "m");
  assert.equal(await cell("mutatingwebhookconfigurations admissionregistration.k8s.io", "create"), "i m");
  const services = await browser.evaluate(`[...document.querySelectorAll("tr")].filter((r) => r.cells[0].textContent.trim() === "services core").map((r) => r.querySelectorAll("td.c").length)`);
  assert.deepEqual(services, [4]);
  const firsts = await browser.evaluate("[...document.querySelectorAll('thead tr')].filter((r) => [...r.cells].some((c) => c.textContent.trim() === '*')).map((r) => r.cells[1].textContent.trim())");
  assert.ok(firsts.length > 0 && firsts.every((verb) => verb === "*"), firsts);
  const spoken = await browser.evaluate("getComputedStyle(document.querySelector('td.m'), '::before').content");
  assert.match(spoken, /missing/, "who listens hears a word");
});

test("heads stay where they can be seen", async () => {
  await click("open");
  const top = (selector) => browser.evaluate(`document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect().top`);
  await browser.evaluate("scrollTo(0, 600)");
  assert.ok(Math.abs(await top(".heads")) <= 1, "the overview's");
  await browser.evaluate(`{ const e = [...document.querySelectorAll(".scroll")].find((e) => e.rows !== 0); e.style.maxHeight = "80px"; e.scrollTop = 60; e.id = "scrolled" }`);
  const within = await browser.evaluate("document.querySelector('#scrolled thead th').getBoundingClientRect().top - document.querySelector('#scrolled').getBoundingClientRect().top");
  assert.ok(Math.abs(within) <= 2, `those of a matrix: ${within}`);
});

test("filters narrow it down by text, verdict, cluster-admin, scope and permission", async () => {
  await click("open");
  assert.equal((await visible(".object")).length, 4);
  await choose("text", "etcdclusters");
  assert.deepEqual(await visible(".object .name bdi"), ["etcdoperator.v0.9.4"]);
  assert.deepEqual(await visible("tbody th"), ["etcdbackups, etcdclusters, etcdrestores etcd.database.coreos.com"]);
  await choose("text", "many.v1");
  assert.deepEqual(await visible(".object .name bdi"), ["many.v1"]);
  await choose("scope", "cluster-wide");
  assert.deepEqual(await visible(".scope h3"), ["cluster-wide"]);
  await choose("cells", "implied");
  assert.ok((await visible("tbody th")).every((row) => !row.includes("/metrics")));
  await choose("scope", ""); await choose("cells", "covered");
  assert.deepEqual(await visible("tbody th"), ["deployments apps", "services core"]);
  await choose("cells", ""); await choose("text", ""); await choose("admin", "yes");
  assert.deepEqual(await visible(".object .name bdi"), ["many.v1"]);
  await choose("admin", ""); await choose("status", "admitted");
  assert.deepEqual(await visible(".object .name bdi"), ["og"]);
  assert.deepEqual(await visible("#shown"), ["1 object"]);
  await choose("text", "no such thing");
  assert.deepEqual(await visible("#nothing"), ["Nothing matches."]);
  await choose("text", ""); await choose("status", "");
  assert.equal((await visible("tbody th")).length, await browser.evaluate("document.querySelectorAll('tbody th').length"), "everything is back");
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

test("an audit says what nothing bounds, and leads to what would", async () => {
  await browser.open(audited);
  const rows = await browser.evaluate(`[...document.querySelectorAll(".object")].map((o) => [o.dataset.status, o.querySelector(".name bdi").textContent, o.dataset.admin])`);
  assert.deepEqual(rows.slice(0, 1), [["unbounded", "many.v1", "yes"]]);
  assert.deepEqual(rows.slice(-1), [["exceeds", "lacking.v1", "no"]]);
  assert.deepEqual(await browser.evaluate("[...document.querySelectorAll('.inside td.h')].length > 0"), true, "held and unbounded");
  const link = await browser.evaluate("document.querySelector('a.good').getAttribute('href')");
  await browser.evaluate("document.querySelector('a.good').click()");
  assert.equal(await browser.evaluate("location.hash"), link);
  while (!await browser.evaluate(`document.querySelector('${link} details').open`));
  assert.match((await visible(`${link} pre`))[0], /kind: OperatorGroup/);
});

test("dark follows the system, and the button turns it round", async () => {
  const ground = () => browser.evaluate("getComputedStyle(document.body).backgroundColor");
  const light = await ground();
  await browser.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "dark" }] });
  const dark = await ground();
  assert.notEqual(dark, light);
  await click("theme");
  assert.equal(await ground(), light);
  await click("theme");
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

test("every text stands out from its ground, light, dark and on paper", async () => {
  for (const url of [page, audited]) {
    await browser.open(url);
    await click("open");
    for (const [media, value] of [["", "light"], ["", "dark"], ["print", "dark"]]) {
      await browser.send("Emulation.setEmulatedMedia", { media, features: [{ name: "prefers-color-scheme", value }] });
      assert.deepEqual(await browser.evaluate(CONTRAST), [], `${media} ${value}`);
    }
  }
});

test("on paper what was opened is open, nothing is cut off and nothing is for clicking", async () => {
  await browser.evaluate("document.querySelector('.object').open = true");
  await browser.send("Emulation.setEmulatedMedia", { media: "print" });
  assert.deepEqual(await visible("form, button"), []);
  assert.equal((await visible(".object .inside")).length, 1);
  assert.equal((await visible(".object > summary")).length, 4);
  assert.ok(await browser.evaluate("[...document.querySelectorAll('.object[open] .scroll')].every((e) => e.scrollHeight <= e.clientHeight + 1)"), "no table hides rows");
  const { data } = await browser.send("Page.printToPDF", { paperWidth: 8.27, paperHeight: 11.69 });
  assert.ok(data.length > 10_000);
});

test("on a phone nothing scrolls sideways but tables, which can be reached by keyboard", async () => {
  for (const [url, width] of [[page, 360], [page, 390], [audited, 390]]) {
    await browser.send("Emulation.setDeviceMetricsOverride", { width, height: 844, deviceScaleFactor: 2, mobile: true });
    await browser.open(url);
    await click("open");
    assert.equal(await browser.evaluate("document.documentElement.scrollWidth"), width);
  }
  assert.ok(await browser.evaluate("[...document.querySelectorAll('.scroll')].some((e) => e.scrollWidth > e.clientWidth)"), "a wide table scrolls by itself");
  assert.ok(await browser.evaluate("[...document.querySelectorAll('.scroll')].every((e) => e.tabIndex === 0 && e.getAttribute('aria-label'))"));
  assert.ok(await browser.evaluate("[...document.querySelectorAll('table')].every((t) => t.querySelector('th[scope=col]') && t.querySelector('th[scope=row]'))"));
  assert.ok((await visible(".object .boundary .label")).every((label) => label === "bounded by"), "what heads said is said in each row");
});

test("everything can be reached and has a name", async () => {
  for (const url of [page, audited]) {
    await browser.open(url);
    await click("open");
    const { nodes } = await browser.send("Accessibility.getFullAXTree");
    const named = nodes.filter((node) => ["button", "searchbox", "combobox", "region", "link", "DisclosureTriangle"].includes(node.role?.value) && !node.ignored);
    assert.ok(named.length > 8);
    assert.deepEqual(named.filter((node) => !node.name?.value).map((node) => node.role.value), []);
  }
});

test("without a script the page still tells everything", async () => {
  await browser.send("Emulation.setScriptExecutionDisabled", { value: true });
  await browser.open(page);
  assert.deepEqual(await visible("form, button"), []);
  assert.equal((await visible(".object > summary")).length, 4);
  await browser.send("Emulation.setScriptExecutionDisabled", { value: false });
  // Folding open needs none.
  await browser.evaluate("document.querySelectorAll('.object')[1].querySelector('summary').click()");
  assert.equal((await visible(".object .inside")).length, 1);
});

test("hundreds of real operators fit one page", async () => {
  const real = corpus(work);
  if (!real) { notRun("no page of hundreds of real operators was opened: ../shared/corpus is not there"); return; }
  const csvs = read(real);
  const pages = [
    ["check", report(work, "all.html", ["check", real, "etcd/cluster", "--namespace", "team-a"])],
    ["audit", report(work, "audited.html", ["audit", "--cluster", cluster(work, "real", csvs)])],
  ];
  for (const [what, url] of pages) {
    const size = statSync(fileURLToPath(url)).size;
    assert.ok(size < 5_000_000, `${what}: ${size} bytes`);
    await browser.open(url);
    assert.ok(await browser.evaluate("document.querySelectorAll('.object').length") >= csvs.length, what);
    const { loadEventEnd, domInteractive } = await browser.evaluate("performance.getEntriesByType('navigation')[0].toJSON()");
    console.log(`${what}: ${csvs.length} operators, ${size} bytes, interactive after ${Math.round(domInteractive)} ms, loaded after ${Math.round(loadEventEnd)} ms`);
    await choose("text", "secrets");
    while (await browser.evaluate("document.querySelectorAll('.object[hidden]').length") === 0);
    assert.ok((await visible(".object")).length > 10);
    if (process.env.SCREENSHOTS) await pictures(what, url);
  }
});

async function pictures(what, url) {
  for (const [width, height] of [[1400, 1000], [390, 844]]) {
    for (const value of ["light", "dark"]) {
      await browser.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 500 });
      await browser.send("Emulation.setEmulatedMedia", { media: "", features: [{ name: "prefers-color-scheme", value }] });
      await browser.open(url);
      writeFileSync(join(process.env.SCREENSHOTS, `${what}-${width}-${value}.png`), await browser.screenshot());
      await browser.evaluate("{ const o = document.querySelectorAll('.object')[3]; o.open = true; o.scrollIntoView(); }");
      writeFileSync(join(process.env.SCREENSHOTS, `${what}-${width}-${value}-open.png`), await browser.screenshot());
    }
  }
}

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

test("pictures for the documents", { skip: !process.env.SCREENSHOTS && "no pictures wanted" }, async () => {
  writeFileSync(join(work, "etcd/granted.yaml"), granted);
  await browser.send("Emulation.setDeviceMetricsOverride", { width: 1100, height: 900, deviceScaleFactor: 1, mobile: false });
  await browser.open(report(work, "picture.html", ["check", "etcd/etcdoperator.v0.9.4.yaml", "--cluster", "etcd/cluster", "etcd/granted.yaml"]));
  writeFileSync(join(process.env.SCREENSHOTS, "check.png"), await browser.screenshot());
});
