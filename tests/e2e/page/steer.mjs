// steer.mjs USER_DATA: a browser that is steered line by line. Each line of stdin is a JSON object
// {"do": ...}, each answer one line of JSON: {"ok": value} or {"error": text}.
//
//   open {url, width, height, theme, drawn}    a page in place of the one before; drawn: false for
//                                       one that doesn't say when it is drawn
//   size {width, height}, theme {theme}
//   eval {code}                         its value, as JSON
//   wait {code, timeout}                until it is true
//   press {keys}, type {text}           one after the other, wherever the focus is
//   axe {}                              violations of axe-core, serious and critical ones
//   shot {file}, pdf {file}
//   told {}                             what the page complained of since it was opened, and asked for
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { axeSource, launch, settled } from "./browser.mjs";

const context = await launch(process.argv[2]);
let page = null;
let told = [];

const actions = {
  async open({ url, width = 1280, height = 900, theme = "light", drawn = true }) {
    await page?.close();
    told = [];
    page = await context.newPage();
    page.on("pageerror", (error) => told.push(`error: ${error.message}`));
    page.on("console", (message) => { if (["error", "warning"].includes(message.type())) told.push(`${message.type()}: ${message.text()}`); });
    page.on("request", (request) => { if (!request.url().startsWith(new URL(url).origin) && !/^(data|blob):/.test(request.url())) told.push(`request: ${request.url()}`); });
    page.on("dialog", async (dialog) => { told.push(`dialog: ${dialog.message()}`); await dialog.dismiss(); });
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: theme });
    const answer = await page.goto(url);
    if (drawn) await page.waitForFunction(() => document.documentElement.dataset.ready === "yes" && document.documentElement.dataset.drawn !== "some", null, { timeout: 30_000, polling: 50 });
    return answer.status();
  },
  async size({ width, height = 900 }) { await page.setViewportSize({ width, height }); await settled(page); },
  async theme({ theme }) { await page.emulateMedia({ colorScheme: theme }); await settled(page); },
  async eval({ code }) { return page.evaluate(code); },
  async wait({ code, timeout = 20_000 }) {
    // Not waitForFunction: it evaluates inside the page, whose policy forbids that.
    const holds = () => page.evaluate(code).catch((error) => { // on the way to another page
      if (!/Execution context was destroyed/.test(error.message)) throw error;
    });
    for (const end = Date.now() + timeout; !(await holds()); await page.waitForTimeout(50)) {
      if (Date.now() > end) throw new Error(`not within ${timeout} ms; the page says: ${(await page.evaluate("document.body.innerText")).slice(0, 2000)}`);
    }
  },
  async press({ keys }) { for (const key of keys) await page.keyboard.press(key); },
  async type({ text }) { await page.keyboard.type(text); },
  async axe() {
    if (!(await page.evaluate("'axe' in window"))) await page.evaluate(readFileSync(axeSource(), "utf8"));
    return page.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations
      .filter((each) => ["serious", "critical"].includes(each.impact))
      .map((each) => ({ id: each.id, nodes: each.nodes.slice(0, 5).map((node) => `${node.target} ${node.failureSummary ?? ""}`) })));
  },
  async shot({ file, full = true }) { await page.screenshot({ path: file, fullPage: full }); },
  async pdf({ file }) { await page.pdf({ path: file, format: "A4", printBackground: false, margin: { top: "12mm", bottom: "12mm", left: "12mm", right: "12mm" } }); },
  async told() { return told; },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: action, ...given } = JSON.parse(line);
  try {
    console.log(JSON.stringify({ ok: (await actions[action](given)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.message ?? error) }));
  }
}
await context.close();
