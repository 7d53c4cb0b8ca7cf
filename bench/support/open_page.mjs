// open_page.mjs FILE USER_DATA ROUNDS: opens the page in a new tab ROUNDS times and prints one JSON
// line per measurement. "usable": from the start of the navigation until the answer, the bars and
// the table stand and the main thread takes input again; "drawn": until the last picture stands;
// "filter": from the input event until the filtered rows are laid out.
import { pathToFileURL } from "node:url";
import { launch } from "../../tests/e2e/page/browser.mjs";

const [file, userData, rounds] = process.argv.slice(2);
const context = await launch(userData);
const tell = (what, ms, more = {}) => console.log(JSON.stringify({ what, ms, ...more }));
const FILTERS = ["timeout", "cold", "#4242", "block:77", "warm", ""];

for (let round = 0; round < Number(rounds); round++) {
  const page = await context.newPage();
  await page.setViewportSize({ width: 1600, height: 1000 });
  await page.addInitScript(() => {
    const watch = () => {
      if (document.documentElement?.dataset.ready === "yes") {
        // The next task that the main thread takes, as a click would be.
        setTimeout(() => { window.usableAt ??= performance.now(); }, 0);
      } else setTimeout(watch, 5);
    };
    watch();
  });
  await page.goto(pathToFileURL(file).href);
  await page.waitForFunction(() => window.usableAt !== undefined);
  tell("usable", await page.evaluate(() => window.usableAt), { round });
  await page.waitForFunction(() => document.documentElement.dataset.drawn === "all", null, { timeout: 60_000, polling: 20 });
  tell("drawn", await page.evaluate(() => performance.now()), { round });
  for (const text of FILTERS) {
    const { ms, count } = await page.evaluate(async (wanted) => {
      const input = document.querySelector(".filters input[type=search]");
      const begin = performance.now();
      input.value = wanted;
      input.dispatchEvent(new Event("input", { bubbles: true }));
      document.querySelector(".attempts").getBoundingClientRect();
      return { ms: performance.now() - begin, count: document.querySelector(".count").textContent };
    }, text);
    tell("filter", ms, { round, text, count });
  }
  await page.close();
}
await context.close();
