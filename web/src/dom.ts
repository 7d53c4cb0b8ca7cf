// The page's few elements: h() makes HTML, s() makes SVG. Text is always text, never markup, so no
// name of a run can become an element.

type Child = Node | string | number | null | undefined | false | Child[];
type Attributes = Record<string, string | number | boolean | null | undefined | EventListener>;

// Control characters, and what turns the direction of the text behind it around: a name with one
// could make "104 ms" read "sm 401".
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
// Attributes that people read.
const READ = new Set(["aria-label", "title", "data-def"]);

/** Foreign text as it may be shown: what can't be seen is "\ufffd". */
export function safeText(text: string): string {
  return text.replace(UNSEEN, "\ufffd");
}

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : READ.has(name) ? safeText(String(value)) : String(value));
  }
  append(element, children);
}

function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : safeText(String(child)));
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, attributes, children);
  return element;
}

/** A number and its unit stay on one line: a no-break space between them. */
export function unbroken(text: string): string {
  return text.replace(/(\d) (ns|µs|us|ms|s|min|h|d|B|kB|MB|GB|TB|%)(?![\w])/g, "$1\u00a0$2").replace(/(\d) – ([\d.,]+\u00a0)/g, "$1\u00a0–\u00a0$2");
}

/** style.left = "12%" and the like, past what a Content-Security-Policy may forbid as an attribute. */
export function place<T extends HTMLElement>(element: T, style: Partial<CSSStyleDeclaration>): T {
  Object.assign(element.style, style);
  return element;
}

export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
