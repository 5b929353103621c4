"use strict";
const root = document.documentElement;
const theme = document.getElementById("theme");
const isDark = () => root.dataset.theme
  ? root.dataset.theme === "dark"
  : matchMedia("(prefers-color-scheme: dark)").matches;
const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
theme.hidden = false;
theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
label();

const filters = document.getElementById("filters");
const [text, status, scope, cells] = ["text", "status", "scope", "cells"].map((id) => document.getElementById(id));
const shown = document.getElementById("shown");
const nothing = document.getElementById("nothing");
const has = (element, words) => words.every((word) => element.dataset.text.includes(word));

// An object whose own name matches is shown whole; otherwise only its rows that match are.
function filter() {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const object of document.querySelectorAll(".object")) {
    const whole = has(object, words);
    let rows = 0;
    for (const block of object.querySelectorAll(".scope")) {
      let inBlock = 0;
      const here = !scope.value || block.dataset.scope === scope.value;
      for (const row of block.querySelectorAll("tbody tr")) {
        row.hidden = !here || !(whole || has(row, words)) || (cells.value && !row.classList.contains("has-" + cells.value));
        inBlock += row.hidden ? 0 : 1;
      }
      block.hidden = inBlock === 0;
      rows += inBlock;
    }
    const byRows = rows > 0 || (whole && !scope.value && !cells.value);
    object.hidden = !byRows || (status.value !== "" && object.dataset.status !== status.value);
    count += object.hidden ? 0 : 1;
  }
  nothing.hidden = count > 0;
  shown.value = count === 1 ? "1 object" : count + " objects";
}
filters.hidden = false;
filters.addEventListener("input", filter);
filters.addEventListener("submit", (event) => event.preventDefault());
filter();

async function copy(button) {
  const source = document.getElementById(button.dataset.copies);
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
