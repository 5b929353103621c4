// A browser on a string: Chromium over its debugging pipe, without any package.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class Browser {
  #waiting = new Map();
  #next = 0;
  #buffer = "";
  #profile = mkdtempSync(join(tmpdir(), "operator-bounds-html-"));
  #process;
  #session;
  events = [];

  static async start(binary) {
    const browser = new Browser();
    const flags = ["--headless=new", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", `--user-data-dir=${browser.#profile}`];
    // Chromium does not start as root with its sandbox; the page under test is our own.
    if (process.getuid?.() === 0) flags.push("--no-sandbox");
    browser.#process = spawn(binary, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    browser.#process.stdio[4].on("data", (data) => browser.#receive(data));
    const { targetId } = await browser.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await browser.send("Target.attachToTarget", { targetId, flatten: true });
    browser.#session = sessionId;
    for (const domain of ["Page", "Runtime", "Log", "Network", "Accessibility"]) await browser.send(`${domain}.enable`);
    return browser;
  }

  #receive(data) {
    this.#buffer += data;
    for (let end; (end = this.#buffer.indexOf("\0")) >= 0; ) {
      const message = JSON.parse(this.#buffer.slice(0, end));
      this.#buffer = this.#buffer.slice(end + 1);
      const waiting = this.#waiting.get(message.id);
      if (!waiting) { this.events.push(message); continue; }
      this.#waiting.delete(message.id);
      if (message.error) waiting.reject(new Error(message.error.message));
      else waiting.resolve(message.result);
    }
  }

  send(method, params = {}) {
    const id = ++this.#next;
    const message = { id, method, params, ...(this.#session && { sessionId: this.#session }) };
    this.#process.stdio[3].write(JSON.stringify(message) + "\0");
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  // The value of an expression in the page; promises are waited for.
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true, userGesture: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  async open(url) {
    // Away from the page first, so that the one that is waited for is the new one.
    await this.send("Page.navigate", { url: "about:blank" });
    while (await this.evaluate("location.href") !== "about:blank");
    this.events.length = 0;
    await this.send("Page.navigate", { url });
    while (await this.evaluate("document.readyState") !== "complete" || await this.evaluate("location.href") !== url);
  }

  async screenshot() {
    const { data } = await this.send("Page.captureScreenshot", { format: "png" });
    return Buffer.from(data, "base64");
  }

  async stop() {
    const ended = new Promise((resolve) => this.#process.on("exit", resolve));
    this.#session = undefined;
    this.send("Browser.close").catch(() => {});
    await ended;
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
