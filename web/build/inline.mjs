// Puts script and style into the template, once for each page: dist/page.html and dist/runs.html,
// which need nothing else. The three <!--ROUSE:...--> marks of a report are filled by
// src/report/html.cc; those of the list of runs are filled here.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const LIMIT_BYTES = 1_500_000;
const MARKS = ["POLICY", "TITLE", "DATA"];
const PAGES = [
  {
    name: "page", styles: "'unsafe-inline'", filled: {}, // Plot styles its SVG with attributes
    noscript: "This page draws its pictures with a script that is inside of it, and scripts are switched off here. " +
      "The data stands in the element “rouse-data” of this file as JSON.",
  },
  {
    name: "runs", filled: { POLICY: "connect-src 'self'", TITLE: "Runs", DATA: "" },
    noscript: "This page needs its script to show the runs; <code>rouse list</code> shows them in a terminal.",
  },
];

function hashOf(text) {
  return "'sha256-" + createHash("sha256").update(text).digest("base64") + "'";
}

for (const { name, styles, filled, noscript } of PAGES) {
  const script = readFileSync(`dist/${name}.js`, "utf8").trim();
  const style = readFileSync(`dist/${name}.css`, "utf8").trim();
  for (const [kind, text, end] of [["script", script, /<\/script|<!--/i], ["style", style, /<\/style/i]]) {
    if (end.test(text)) throw new Error(`the ${kind} of ${name} holds ${end}, which would end its element`);
  }
  const network = script.match(/https?:\/\/(?!www\.w3\.org\/)[\w.-]+/g) ?? [];
  let page = readFileSync("build/template.html", "utf8");
  for (const [mark, text] of Object.entries({ script_policy: hashOf(script), style_policy: styles ?? hashOf(style), noscript, style, script })) {
    page = page.replace(`{{${mark}}}`, () => text);
  }
  for (const mark of MARKS) {
    if (page.split(`<!--ROUSE:${mark}-->`).length !== 2) throw new Error(`${name}: not one mark ${mark}`);
    if (mark in filled) page = page.replace(`<!--ROUSE:${mark}-->`, () => filled[mark]);
  }
  if (page.length > LIMIT_BYTES) throw new Error(`${name}: ${page.length} bytes are more than ${LIMIT_BYTES}`);
  writeFileSync(`dist/${name}.html`, page);
  console.log(`dist/${name}.html: ${page.length} bytes; addresses in it: ${[...new Set(network)].join(", ") || "none"}`);
}
