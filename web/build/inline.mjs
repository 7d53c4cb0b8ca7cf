// Puts script and style into the template: dist/page.html, which needs nothing else. The three
// <!--ROUSE:...--> marks are filled by src/report/html.cc.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const LIMIT_BYTES = 1_500_000;

const script = readFileSync("dist/page.js", "utf8").trim();
const style = readFileSync("dist/page.css", "utf8").trim();
for (const [name, text, end] of [["script", script, /<\/script|<!--/i], ["style", style, /<\/style/i]]) {
  if (end.test(text)) throw new Error(`the ${name} holds ${end}, which would end its element`);
}
const network = script.match(/https?:\/\/(?!www\.w3\.org\/)[\w.-]+/g) ?? [];
const hash = "sha256-" + createHash("sha256").update(script).digest("base64");
const page = readFileSync("build/template.html", "utf8")
  .replace("{{script_hash}}", () => hash)
  .replace("{{style}}", () => style)
  .replace("{{script}}", () => script);
for (const mark of ["POLICY", "TITLE", "DATA"]) {
  if (page.split(`<!--ROUSE:${mark}-->`).length !== 2) throw new Error(`not one mark ${mark}`);
}
if (page.length > LIMIT_BYTES) throw new Error(`${page.length} bytes are more than ${LIMIT_BYTES}`);
writeFileSync("dist/page.html", page);
console.log(`dist/page.html: ${page.length} bytes; addresses in it: ${[...new Set(network)].join(", ") || "none"}`);
