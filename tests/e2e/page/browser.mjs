// The parts that every check of the report page shares: Debian's Chromium through playwright-core,
// a page that must be quiet (no error, no request), and what a drawn page says of itself.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const modules = process.env.ROUSE_NODE_MODULES;
const require = createRequire(path.join(modules, "none.js"));
const { chromium } = require("playwright-core");

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export function launch(userData) {
  return chromium.launchPersistentContext(userData, {
    executablePath: process.env.ROUSE_CHROMIUM ?? "/usr/bin/chromium", args: FLAGS,
    acceptDownloads: true, timeout: 60_000 });
}

/** Waits until the page has heard of a new size or theme and has drawn itself anew. Not by
 * waitForFunction: it evaluates inside the page, and the policy of some forbids that. */
export const settled = async (page) => {
  await page.evaluate(() => new Promise((heard) => { requestAnimationFrame(() => requestAnimationFrame(heard)); }));
  while (await page.evaluate(() => document.documentElement.dataset.drawn === "some")) await page.waitForTimeout(30);
};

/** Opens a file and waits until everything is drawn. Whatever the page complains of is in `told`. */
export async function open(context, file, { width = 1600, height = 1000, theme = "light" } = {}) {
  const page = await context.newPage();
  const told = [];
  page.on("pageerror", (error) => told.push(`error: ${error.message}`));
  page.on("console", (message) => { if (message.type() === "error" || message.type() === "warning") told.push(`${message.type()}: ${message.text()}`); });
  page.on("request", (request) => { if (!/^(file|data|blob):/.test(request.url())) told.push(`request: ${request.url()}`); });
  page.on("dialog", async (dialog) => { told.push(`dialog: ${dialog.message()}`); await dialog.dismiss(); });
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: theme });
  await page.goto(pathToFileURL(file).href);
  await page.waitForFunction(() => document.documentElement.dataset.ready === "yes", null, { timeout: 30_000 });
  await page.waitForFunction(() => document.documentElement.dataset.drawn !== "some", null, { timeout: 60_000 });
  return { page, told };
}

export function axeSource() {
  return path.join(modules, "axe-core", "axe.min.js");
}
