"use strict";
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const theme = byId("theme");
const isDark = () => root.dataset.theme
  ? root.dataset.theme === "dark"
  : matchMedia("(prefers-color-scheme: dark)").matches;
const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
theme.hidden = false;
theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
label();

const filters = byId("filters");
const [text, status, admin, scope, cells] = ["text", "status", "admin", "scope", "cells"].map(byId);
const shown = byId("shown");
const nothing = byId("nothing");
const objects = [...document.querySelectorAll(".object")];
const marks = { missing: "td.m", covered: "td.c", implied: "" };

// What is read of the page once, and only when somebody filters by it.
const known = new WeakMap();
function words(element, of) {
  if (!known.has(element)) known.set(element, of.textContent.toLowerCase());
  return known.get(element);
}
const has = (content, wanted) => wanted.every((word) => content.includes(word));
const fits = (row) => !cells.value || (cells.value === "implied" ? row.classList.contains("i") : row.querySelector(marks[cells.value]) !== null);

// An object whose own name matches is shown whole; otherwise only its rows that match are.
function filter() {
  const wanted = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const inside = wanted.length > 0 || scope.value || cells.value;
  let count = 0;
  for (const object of objects) {
    const whole = has(words(object, object.firstElementChild), wanted);
    let rows = 0;
    if (inside || object.dataset.filtered) {
      for (const block of object.querySelectorAll(".scope")) {
        let inBlock = 0;
        const here = !scope.value || block.dataset.scope === scope.value;
        for (const row of block.querySelectorAll("tbody tr")) {
          row.hidden = !here || !(whole || has(words(row, row.cells[0]), wanted)) || !fits(row);
          inBlock += row.hidden ? 0 : 1;
        }
        block.hidden = inBlock === 0;
        rows += inBlock;
      }
      if (inside) object.dataset.filtered = "1"; else delete object.dataset.filtered;
    }
    const byRows = rows > 0 || (whole && !scope.value && !cells.value);
    object.hidden = !byRows || (status.value !== "" && object.dataset.status !== status.value)
      || (admin.value !== "" && object.dataset.admin !== admin.value);
    count += object.hidden ? 0 : 1;
  }
  nothing.hidden = count > 0;
  shown.value = count === 1 ? "1 object" : count + " objects";
}
let waiting;
filters.hidden = objects.length < 2;
filters.addEventListener("input", (event) => {
  clearTimeout(waiting);
  if (event.target === text && objects.length > 50) waiting = setTimeout(filter, 120); else filter();
});
filters.addEventListener("submit", (event) => event.preventDefault());
const fold = (open) => objects.forEach((object) => { if (!object.hidden) object.open = open; });
byId("open").addEventListener("click", () => fold(true));
byId("close").addEventListener("click", () => fold(false));
shown.value = objects.length === 1 ? "1 object" : objects.length + " objects";

async function copy(button) {
  const source = byId(button.dataset.copies);
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    // Without permission, or from a place that browsers do not trust: select it and copy the old way.
    getSelection().selectAllChildren(source);
    if (!document.execCommand("copy")) { button.textContent = "Press Ctrl+C"; return; }
    getSelection().removeAllRanges();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}
for (const button of document.querySelectorAll("[data-copies]")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
}

// Whatever a link leads to is opened.
function follow() {
  const target = location.hash && byId(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
  const pasted = target && target.querySelector("details.paste");
  if (pasted) pasted.open = true;
}
addEventListener("hashchange", follow);
follow();
