// The difference of two texts, line by line.
import { html } from "./html.js";

const MOST = 1_000_000; // pairs of lines to compare; beyond, everything counts as changed

function lines(old, fresh) {
  const a = old.split("\n");
  const b = fresh.split("\n");
  if (a.length * b.length > MOST) return [...a.map((text) => ["-", text]), ...b.map((text) => ["+", text])];
  const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) found.push([" ", a[i++], j++]);
    else if (j >= b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) found.push(["-", a[i++]]);
    else found.push(["+", b[j++]]);
  }
  return found;
}

const NAMES = { "-": "removed", "+": "added", " ": "same" };

export function Diff({ label, old, fresh }) {
  if (old === fresh) return html`<p class="quiet">${label}: no change.</p>`;
  return html`<h3>${label}</h3><pre class="diff" tabindex="0" aria-label=${`Changes of ${label}`}>${lines(old, fresh).map(([mark, text]) => html`<span class=${NAMES[mark]}>${`${mark} ${text}\n`}</span>`)}</pre>`;
}
