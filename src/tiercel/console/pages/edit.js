// Edit and resend: the original beside the edit, and what differs. Or the same with a copy, and the original stays.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, queuePath, useData } from "../parts/api.js";
import { queueLink, shortName } from "../parts/format.js";
import { place } from "../parts/place.js";
import { Action, Failure } from "../parts/dialog.js";
import { bytesOf } from "../parts/body.js";
import { Diff } from "../parts/diff.js";
import { notify } from "../parts/notice.js";
import { QueueField } from "../parts/queue_field.js";

const isWide = (message) => ["lpwstr", "bstr"].includes(message.body_type);
const MOST_HEX = 64 * 1024;
const INFINITE = "infinite";
const DAYS_4 = 345_600; // the default of MSMQ

/** How the body is edited: as text, as hexadecimal digits, or not at all (.NET, WCF, and what is too large). */
function formOf(message) {
  if (["dotnet", "wcf"].includes(message.decoded?.kind)) return { kind: null, text: "" };
  const bytes = bytesOf(message.body);
  try {
    const text = new TextDecoder(isWide(message) ? "utf-16le" : "utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    if (!/[\u0000-\u0008\u000e-\u001f]/.test(text)) return { kind: "text", text };
  } catch { /* not text */ }
  if (bytes.length > MOST_HEX) return { kind: null, text: "" };
  const digits = [...bytes].map((each) => each.toString(16).padStart(2, "0"));
  const lines = Array.from({ length: Math.ceil(digits.length / 16) }, (_, at) => digits.slice(at * 16, at * 16 + 16).join(" "));
  return { kind: "hex", text: lines.join("\n") };
}

function encoded(text, kind, wide) {
  let bytes;
  if (kind === "hex") {
    const digits = text.replace(/\s+/g, "");
    if (!/^([0-9a-f]{2})*$/i.test(digits)) throw new Error("The body is not made of pairs of hexadecimal digits.");
    bytes = Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  } else if (wide) {
    bytes = new Uint8Array(Uint16Array.from({ length: text.length }, (_, at) => text.charCodeAt(at)).buffer);
  } else {
    bytes = new TextEncoder().encode(text);
  }
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary);
}

export function EditPage({ me, name, id }) {
  const path = `${queuePath(name)}/messages/${id}`;
  const { data: message, error } = useData((options) => get(path, { decode: true }, options), [path]);
  const isCopy = place().query.has("copy");
  const title = isCopy ? "Copy and send" : "Edit and resend";
  const crumbs = html`<p class="crumbs"><a href="#/">Overview</a> › <a href=${queueLink(name)}>${name}</a> › <a href=${`${queueLink(name)}/${id}`}>message</a></p>`;
  if (!message) return html`${crumbs}<h1>${title}</h1><${Failure} error=${error} />${!error && html`<p class="loading">Loading</p>`}`;
  return html`${crumbs}<h1>${title}</h1><${Editor} me=${me} name=${name} path=${path} message=${message} isCopy=${isCopy} />`;
}

/** Properties that can be edited, as the texts of their fields. */
function propertiesOf(message) {
  return {
    label: message.label ?? "", priority: String(message.priority ?? 3), delivery: message.delivery ?? "express",
    time_to_be_received: String(message.time_to_be_received ?? INFINITE), time_to_reach_queue: String(message.time_to_reach_queue ?? DAYS_4),
    application_tag: String(message.application_tag ?? 0), negative_journaling: message.negative_journaling ? "yes" : "no",
  };
}

const VALUES = { priority: Number, application_tag: Number, negative_journaling: (text) => text === "yes" };
const seconds = (text) => (text === INFINITE ? INFINITE : Number(text));
const valueOf = (name, text) => (name.startsWith("time_") ? seconds(text) : (VALUES[name] ?? String)(text));
const listed = (properties) => Object.entries(properties).map(([name, text]) => `${name.replaceAll("_", " ")}: ${text}`).join("\n");

function Editor({ me, name, path, message, isCopy }) {
  const form = formOf(message);
  const original = propertiesOf(message);
  const [edit, setEdit] = useState(original);
  const [text, setText] = useState(form.text);
  const [to, setTo] = useState("");
  const [checked, setChecked] = useState(null);
  const [error, setError] = useState(null);
  const isDead = name.startsWith(";") || /;journal$/i.test(name);
  const goal = to || (isDead ? message.destination_queue : name);
  const isTransactional = message.transaction_id !== undefined;
  const set = (key) => (event) => setEdit({ ...edit, [key]: event.target.value });
  const changed = Object.keys(edit).filter((key) => edit[key] !== original[key]);
  const isChanged = changed.length > 0 || text !== form.text;
  const attempt = (work) => async () => {
    setError(null);
    try {
      await work();
    } catch (problem) {
      setError(problem);
    }
  };
  const check = attempt(async () => setChecked(await get("/explain", { queue: goal, transactional: isTransactional })));
  const send = attempt(async () => {
    const changes = Object.fromEntries(changed.map((key) => [key, valueOf(key, edit[key])]));
    if (text !== form.text) changes.body = encoded(text, form.kind, isWide(message));
    const done = await post(`${path}/edit`, { changes, ...(to ? { to } : {}), ...(isCopy ? { keep: true } : {}) });
    notify(`Sent as ${done.id}.`, done.operation);
    location.hash = queueLink(name);
  });
  const body = form.kind === null ? html`<p class="quiet">The body (${message.decoded?.kind ?? "binary"}) is sent as it is.</p>`
    : html`<label>${form.kind === "hex" ? "Body, hexadecimal" : "Body"} <textarea name="text" rows="8" class=${form.kind === "hex" ? "code" : ""} spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>`;
  const promise = isCopy ? "The copy is a new message; the original stays." : `One commit sends the edit and deletes the original${isDead ? "" : ", which can be undone"}.`;
  return html`<p class="quiet">${promise}</p>
    <div class="sides"><section><h2>Original</h2><dl class="pairs">${Object.entries(original).map(([key, value]) => html`<dt>${key.replaceAll("_", " ")}</dt><dd>${value || "–"}</dd>`)}</dl>
      ${form.kind !== null && html`<pre tabindex="0" aria-label="Original body">${form.text}</pre>`}</section>
    <section><h2>Edit</h2><form onSubmit=${(event) => event.preventDefault()}><label>Label <input name="label" maxlength="249" value=${edit.label} onInput=${set("label")} /></label>
      ${body}
      <${QueueField} label="To another queue (optional)" value=${to} placeholder=${shortName(goal)} onInput=${setTo} />
      <details><summary>More properties</summary>
        ${!isTransactional && html`<label>Priority <input name="priority" type="number" min="0" max="7" value=${edit.priority} onInput=${set("priority")} /></label>
          <label>Delivery <select name="delivery" value=${edit.delivery} onChange=${set("delivery")}><option>express</option><option>recoverable</option></select></label>`}
        <label>Time to be received, seconds <input name="ttbr" value=${edit.time_to_be_received} pattern="infinite|[0-9]+" onInput=${set("time_to_be_received")} /></label>
        <label>Time to reach the queue, seconds <input name="ttrq" value=${edit.time_to_reach_queue} pattern="infinite|[0-9]+" onInput=${set("time_to_reach_queue")} /></label>
        <label>Dead letter if it ends <select name="negative_journaling" value=${edit.negative_journaling} onChange=${set("negative_journaling")}><option>no</option><option>yes</option></select></label>
        <label>Application tag <input name="application_tag" type="number" min="0" max="4294967295" value=${edit.application_tag} onInput=${set("application_tag")} /></label></details></form></section></div>
    <h2>Changes</h2>
    <${Diff} label="properties" old=${listed(original)} fresh=${listed(edit)} />
    ${form.kind !== null && html`<${Diff} label="body" old=${form.text} fresh=${text} />`}
    <${Failure} error=${error} />
    ${checked && html`<p role="status" class=${checked.would_go ? "note" : "problem"}>${checked.would_go ? "A message would arrive." : checked.findings.filter((each) => each.result === "fail").map((each) => each.text).join(" ")}</p>`}
    <p class="tools"><button type="button" onClick=${check}>Check</button>
      ${isChanged ? html`<${Action} me=${me} role=${["receive", "send"]} primary onClick=${send}>${isCopy ? "Send the copy" : "Send the edit"}<//>` : html`<button type="button" disabled>Nothing is changed yet</button>`}</p>`;
}
