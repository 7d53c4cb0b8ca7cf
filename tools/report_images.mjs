// report_images.mjs: takes pictures of report pages for docs/images; tools/report_images.py calls it
// with a JSON list of {file, out, width, theme, from, to, wait} on stdin. `from` and `to` are CSS
// selectors: the picture begins above the one and ends below the other.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { launch, open } from "../tests/e2e/page/browser.mjs";

const wanted = JSON.parse(readFileSync(0, "utf8"));
const userData = mkdtempSync(path.join(os.tmpdir(), "rouse-images-"));
const context = await launch(userData);
for (const { file, out, width, theme, from, to } of wanted) {
  const { page, told } = await open(context, file, { width, theme });
  if (told.length) throw new Error(`${file}: ${told.join("; ")}`);
  const clip = await page.evaluate(([first, last]) => {
    const top = first ? document.querySelector(first).getBoundingClientRect().top + scrollY - 14 : 0;
    const bottom = document.querySelector(last).getBoundingClientRect().bottom + scrollY + 18;
    return { x: 0, y: top, width: document.documentElement.clientWidth, height: bottom - top };
  }, [from ?? null, to]);
  await page.screenshot({ path: out, fullPage: true, clip });
  await page.close();
}
await context.close();
rmSync(userData, { recursive: true, force: true });
