// The body of a message: decoded, as text, or as bytes.
import { html } from "./html.js";
import { useState } from "../vendor/hooks.js";
import { size } from "./format.js";

const SHOWN = 64 * 1024;

export const bytesOf = (text) => Uint8Array.from(atob(text || ""), (character) => character.charCodeAt(0));

function asText(bytes, type) {
  const isWide = ["lpwstr", "bstr"].includes(type) || (bytes.length > 1 && bytes[0] === 0xff && bytes[1] === 0xfe);
  return new TextDecoder(isWide ? "utf-16le" : "utf-8").decode(bytes);
}

function asHex(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const part = bytes.subarray(at, at + 16);
    const hex = [...part].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = [...part].map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}

/** JSON on lines of its own, without reading it: numbers stay as they were written. */
export function asLines(json) {
  let [depth, found] = [0, ""];
  const line = (by) => `\n${"  ".repeat(Math.min(40, Math.max(0, (depth += by))))}`;
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s"[\]{}:,]+/g) ?? [];
  tokens.forEach((token, at) => {
    const isEmpty = ("[{".includes(token) && "]}".includes(tokens[at + 1])) || ("]}".includes(token) && "[{".includes(tokens[at - 1]));
    if (isEmpty) found += token;
    else if ("[{".includes(token)) found += token + line(1);
    else if ("]}".includes(token)) found += line(-1) + token;
    else if (token === ",") found += token + line(0);
    else found += token === ":" ? ": " : token;
  });
  return found;
}

const NAMES = { xml: "XML", json: "JSON", dotnet: ".NET", wcf: "WCF", text: "Text", binary: "Decoded" };

export function Body({ message }) {
  const decoded = message.decoded;
  const kinds = [...(decoded?.text ? [NAMES[decoded.kind] || "Decoded"] : []), "As sent", "Hex"];
  const [chosen, choose] = useState(kinds[0]);
  const bytes = bytesOf(message.body);
  const cut = bytes.subarray(0, SHOWN);
  const text = chosen === "Hex" ? asHex(cut) : chosen === "As sent" ? asText(cut, message.body_type) : decoded.kind === "json" ? asLines(decoded.text.slice(0, SHOWN)) : decoded.text.slice(0, SHOWN);
  if (!bytes.length) return html`<p class="quiet">The body is empty.</p>`;
  return html`<div>
    <p class="choices" role="group" aria-label="Show the body as">
      ${kinds.map((kind) => html`<button type="button" aria-pressed=${kind === chosen} onClick=${() => choose(kind)}>${kind}</button>`)}
      <span class="quiet">${size(bytes.length)}${decoded ? `, ${decoded.kind}` : ""}</span></p>
    ${decoded?.error && html`<p class="problem">${decoded.error}</p>`}
    ${decoded?.headers && html`<dl class="pairs">${Object.entries(decoded.headers).map(([name, value]) => html`<dt>${name}</dt><dd>${String(value)}</dd>`)}</dl>`}
    <pre tabindex="0" aria-label="Body">${text}</pre>
    ${bytes.length > SHOWN && html`<p class="quiet">Only the first ${size(SHOWN)} are shown.</p>`}
  </div>`;
}
