// look.mjs FILE OUT USER_DATA [SHOTS]: opens a report and prints, as one JSON object, what a reader
// would find there: texts, the drawn marks' own numbers, complaints, axe's findings, and what the
// filter and the downloads do. SHOTS=1: screenshots in both themes at 360, 800 and 1600 px.
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { axeSource, launch, open, settled } from "./browser.mjs";

const [file, out, userData, shots] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const context = await launch(userData);

const read = (page) => page.evaluate(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  // Numbers hold their units with no-break spaces; whoever reads does not see that.
  const text = (selector) => all(selector).map((each) => each.textContent.replaceAll("\u00a0", " "));
  const box = (each) => { const { x, y, width, height } = each.getBoundingClientRect(); return { x, y, width, height }; };
  return {
    title: document.title,
    headline: text("h1")[0] ?? "",
    text: document.body.innerText,
    costs: text(".cost-list .amount"),
    sections: text("h2"),
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    bars: all(".bars .row[data-condition]").map((row) => ({
      condition: row.dataset.condition, value: row.querySelector(".big")?.textContent, track: box(row.querySelector(".track")),
      failed: row.querySelector(".failed-count")?.textContent ?? null,
      segments: [...row.querySelectorAll(".segment[data-stage]")].map((each) => ({ stage: each.dataset.stage, ns: Number(each.dataset.ns), width: each.getBoundingClientRect().width })) })),
    steps: all(".ladder .fall").map((each) => ({ from: Number(each.dataset.from), to: Number(each.dataset.to), ...box(each) })),
    grades: text(".ladder .grade"),
    dots: all("#every-attempt-picture svg:not([aria-hidden]) g[data-mark=dot]").map((group) => group.querySelectorAll("path, circle").length),
    canvasDots: all("#every-attempt-picture canvas[data-dots]").map((each) => Number(each.dataset.dots)),
    canvasCrosses: all("#every-attempt-picture canvas[data-crosses]").map((each) => Number(each.dataset.crosses)),
    curves: all("#distributions-picture svg").length,
    lanes: all("svg.lanes .block").map((each) => ({ kind: each.dataset.kind, from: Number(each.dataset.from), to: Number(each.dataset.to), lane: each.dataset.lane ?? null, value: Number(each.dataset.value), told: each.dataset.def, ...box(each.querySelector("rect")) })),
    sampled: document.querySelector(".sampled")?.textContent ?? null,
    strips: all(".strip").map((each) => each.querySelectorAll(".part").length),
    count: document.querySelector(".count")?.textContent ?? null,
    rows: all(".attempts tbody tr:not(.gap)").length,
    verdicts: text(".verdict"),
    tracks: all(".tracks").map((each) => [...new Set([...each.querySelectorAll(".track")].map((track) => { const { x, width } = track.getBoundingClientRect(); return `${Math.round(x)} ${Math.round(width)}`; }))]),
    shifts: all(".shifts .point").map((each) => ({ value: Number(each.dataset.value), ...box(each) })),
    unnamed: all("svg[role=img], [role=img]").filter((each) => !each.getAttribute("aria-label")).length,
    captions: text("figcaption").map((each) => each.length),
    definitions: all("[data-def]").length,
    empty: all("[data-def]").filter((each) => !each.getAttribute("data-def")).length,
    scripts: all("script").length,
    images: all("img, iframe, link, object, embed").length,
  };
});

/** Words that lie on other words, in a picture or on an axis; and pictures that leave their place. */
const clashes = (page) => page.evaluate(() => {
  const found = [];
  const boxes = (root, selector) => [...root.querySelectorAll(selector)]
    .filter((each) => each.textContent.trim() && !each.closest("[aria-label=tip], [data-mark=tip]"))
    .map((each) => ({ text: each.textContent.trim(), box: each.getBoundingClientRect() })).filter(({ box }) => box.width > 0);
  for (const [roots, selector] of [["svg:not([aria-hidden])", "text"], [".axis .track", ".tick span"], [".row", ".row-name strong, .row-name small, .row-value > *"]]) {
    for (const root of document.querySelectorAll(roots)) {
      const all = boxes(root, selector);
      all.forEach(({ text, box }, at) => {
        for (const other of all.slice(at + 1)) {
          const wide = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
          const high = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
          if (wide > 1.5 && high > 3.5) found.push(`“${text}” on “${other.text}”`);
        }
      });
    }
  }
  const edge = document.documentElement.clientWidth;
  for (const { text, box } of boxes(document, "svg:not([aria-hidden]) text, .row-value > *, .tick span, .cost-list span")) {
    if (box.right > edge + 1 || box.left < -1) found.push(`“${text}” is cut by the window's edge`);
  }
  for (const cell of document.querySelectorAll("th, td")) {
    const words = cell.textContent.trim().split(/\s+/);
    const range = document.createRange();
    range.selectNodeContents(cell);
    const lines = new Set([...range.getClientRects()].map((line) => Math.round(line.bottom / 6)));
    if (words.every((word) => word.length < 9) && lines.size > words.length + 1) found.push(`“${cell.textContent}” is broken into letters`);
  }
  return [...new Set(found)];
});

const { page, told } = await open(context, file);
const found = await read(page);

await page.evaluate(readFileSync(axeSource(), "utf8")); // past the page's policy, as a debugger
const axe = async () => (await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations))
  .map((each) => ({ id: each.id, impact: each.impact, nodes: each.nodes.slice(0, 5).map((node) => `${node.target} ${node.failureSummary ?? ""}`) }));
found.axe = { light: await axe() };
await page.emulateMedia({ colorScheme: "dark" });
await settled(page);
found.axe.dark = await axe();
found.told = [...told];

const search = page.locator(".filters input[type=search]");
if (await search.count()) {
  const lookFor = process.env.LOOK_FOR ?? "#1";
  found.filter_ms = await page.evaluate((text) => {
    const input = document.querySelector(".filters input[type=search]");
    const begin = performance.now();
    input.value = text;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    document.querySelector(".attempts").getBoundingClientRect();
    return performance.now() - begin;
  }, lookFor);
  found.filtered = await page.locator(".count").textContent();
  for (const [name, label] of [["csv", "CSV"], ["json", "JSON"]]) {
    const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: label, exact: true }).click()]);
    await saved.saveAs(path.join(out, `saved.${name}`));
  }
  // By keyboard alone: sort, then open the first attempt of the table.
  await search.fill("");
  await page.locator(".sort").first().focus();
  await page.keyboard.press("Enter");
  found.sorted = await page.locator(".attempts thead th").first().getAttribute("aria-sort");
  const first = page.locator(".attempts .open").first();
  found.first_id = await first.textContent();
  await first.focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction((id) => document.querySelector(".attempt-box")?.dataset.attempt === id, found.first_id);
  found.opened = await page.locator(".told").textContent();
  const lanes = page.locator("svg.lanes");
  const range = () => page.locator("svg.lanes .grid text").allTextContents();
  if (await lanes.count()) { // none of an attempt without any time
    await lanes.focus();
    const before = await range();
    for (let times = 0; times < 3; times++) await page.keyboard.press("+");
    found.zoomed = JSON.stringify(before) !== JSON.stringify(await range());
  }
}
const term = page.locator("[data-def].term").first();
if (await term.count()) {
  await term.focus();
  found.definition = await page.locator("#definition").textContent();
  found.described = await term.getAttribute("aria-describedby");
}
await page.close();

if (shots === "1") {
  found.overflows = [];
  found.late = [];
  const { page: shot, told: late } = await open(context, file, { width: 360 });
  for (const width of [360, 800, 1600]) {
    await shot.setViewportSize({ width, height: 1000 });
    await settled(shot);
    for (const theme of ["light", "dark"]) {
      await shot.emulateMedia({ colorScheme: theme });
      await settled(shot);
      const { overflow } = await read(shot);
      if (overflow > 0) found.overflows.push(`${width} px by ${overflow}`);
      if (theme === "light") found.overflows.push(...(await clashes(shot)).map((each) => `${width} px: ${each}`));
      await shot.screenshot({ path: path.join(out, `page-${width}-${theme}.png`), fullPage: true });
    }
  }
  found.late.push(...late);
  // By the button, whatever the system wishes; "auto" is the system's again, and so is what follows.
  const paper = () => shot.evaluate(() => [getComputedStyle(document.body.parentElement).backgroundColor, getComputedStyle(document.querySelector("h1")).color].join(" on "));
  found.themes = {};
  for (const system of ["light", "dark"]) {
    await shot.emulateMedia({ colorScheme: system });
    for (const chosen of ["auto", "light", "dark"]) {
      found.themes[`${system}, ${(await shot.locator(".theme").textContent()).replace("theme: ", "")}`] = await paper();
      if (chosen === "dark") await shot.emulateMedia({ media: "print" });
      if (chosen === "dark") found.themes[`${system}, printed`] = await paper();
      if (chosen === "dark") await shot.emulateMedia({ media: "screen" });
      await shot.locator(".theme").click();
    }
  }
  await settled(shot);
  // On paper, from the widest window: every picture is drawn for the sheet, and none is cut by its edge.
  await shot.emulateMedia({ media: "print", colorScheme: "light" });
  await shot.evaluate(() => dispatchEvent(new Event("beforeprint")));
  found.print = await shot.evaluate(() => ({
    widths: [...document.querySelectorAll(".plot svg:not([aria-hidden])")].map((each) => each.viewBox.baseVal.width),
    cuttable: [...document.querySelectorAll(".plot svg:not([aria-hidden]), svg.lanes, .row, .small, tr")].filter((each) => getComputedStyle(each).breakInside !== "avoid").length,
    shown: [...document.querySelectorAll("nav, .theme, .filters, .show-new")].filter((each) => each.checkVisibility()).length,
    colours: [...document.querySelectorAll(".segment, .swatch, .fall, .whisker")].filter((each) => (each.closest(".stack") ?? each) && getComputedStyle(each.closest(".stack") ?? each).printColorAdjust !== "exact").length,
  }));
  await shot.pdf({ path: path.join(out, "page.pdf"), format: "A4" });
}
await context.close();
console.log(JSON.stringify(found));
