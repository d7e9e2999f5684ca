// Edit and resend: the original beside the edit, and what differs.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, queuePath, useData } from "../parts/api.js";
import { queueLink, shortName } from "../parts/format.js";
import { Action, Failure } from "../parts/dialog.js";
import { Diff } from "../parts/diff.js";
import { notify } from "../parts/notice.js";

const bytesOf = (text) => Uint8Array.from(atob(text || ""), (character) => character.charCodeAt(0));
const isWide = (message) => ["lpwstr", "bstr"].includes(message.body_type);

/** The body as text, or null if it is not text: those bytes stay as they are. */
function textOf(message) {
  if (["dotnet", "wcf"].includes(message.decoded?.kind)) return null;
  try {
    const text = new TextDecoder(isWide(message) ? "utf-16le" : "utf-8", { fatal: true, ignoreBOM: true }).decode(bytesOf(message.body));
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

function encoded(text, wide) {
  const bytes = wide ? new Uint8Array(new Uint16Array([...text].flatMap((each) => [...Array(each.length).keys()].map((at) => each.charCodeAt(at)))).buffer) : new TextEncoder().encode(text);
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary);
}

export function EditPage({ me, name, id }) {
  const path = `${queuePath(name)}/messages/${id}`;
  const { data: message, error } = useData((options) => get(path, { decode: true }, options), [path]);
  const crumbs = html`<p class="crumbs"><a href="#/">Overview</a> › <a href=${queueLink(name)}>${name}</a> › <a href=${`${queueLink(name)}/${id}`}>message</a></p>`;
  if (!message) return html`${crumbs}<h1>Edit and resend</h1><${Failure} error=${error} />${!error && html`<p class="loading">Loading</p>`}`;
  return html`${crumbs}<${Editor} me=${me} name=${name} path=${path} message=${message} />`;
}

function Editor({ me, name, path, message }) {
  const original = { label: message.label ?? "", priority: String(message.priority ?? 3), text: textOf(message) };
  const [edit, setEdit] = useState(original);
  const [to, setTo] = useState("");
  const [checked, setChecked] = useState(null);
  const [error, setError] = useState(null);
  const isDead = name.startsWith(";");
  const goal = to || (isDead ? message.destination_queue : name);
  const isTransactional = message.transaction_id !== undefined;
  const set = (key) => (event) => setEdit({ ...edit, [key]: event.target.value });
  const changes = {};
  if (edit.label !== original.label) changes.label = edit.label;
  if (edit.priority !== original.priority) changes.priority = Number(edit.priority);
  if (edit.text !== original.text) changes.body = encoded(edit.text, isWide(message));
  const isChanged = Object.keys(changes).length > 0;
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
    const done = await post(`${path}/edit`, { changes, ...(to ? { to } : {}) });
    notify(`Sent as ${done.id}.`, done.operation);
    location.hash = queueLink(name);
  });
  const body = original.text === null ? html`<p class="quiet">The body is not text (${message.decoded?.kind ?? "binary"}); it is sent as it is.</p>`
    : html`<label>Body <textarea name="text" rows="8" value=${edit.text} onInput=${set("text")}></textarea></label>`;
  return html`<h1>Edit and resend</h1>
    <p class="quiet">One commit sends the edit and deletes the original${isDead ? "" : ", which can be undone"}.</p>
    <div class="sides"><section><h2>Original</h2><dl class="pairs"><dt>label</dt><dd>${original.label || "–"}</dd><dt>priority</dt><dd>${original.priority}</dd></dl>
      ${original.text !== null && html`<pre tabindex="0" aria-label="Original body">${original.text}</pre>`}</section>
    <section><h2>Edit</h2><form onSubmit=${(event) => event.preventDefault()}><label>Label <input name="label" maxlength="249" value=${edit.label} onInput=${set("label")} /></label>
      ${!isTransactional && html`<label>Priority <input name="priority" type="number" min="0" max="7" value=${edit.priority} onInput=${set("priority")} /></label>`}
      ${body}
      <label>To another queue (optional) <input name="to" value=${to} placeholder=${shortName(goal)} onInput=${(event) => setTo(event.target.value)} /></label></form></section></div>
    <h2>Changes</h2>
    <${Diff} label="properties" old=${`label: ${original.label}\npriority: ${original.priority}`} fresh=${`label: ${edit.label}\npriority: ${edit.priority}`} />
    ${original.text !== null && html`<${Diff} label="body" old=${original.text} fresh=${edit.text} />`}
    <${Failure} error=${error} />
    ${checked && html`<p role="status" class=${checked.would_go ? "note" : "problem"}>${checked.would_go ? "A message would arrive." : checked.findings.filter((each) => each.result === "fail").map((each) => each.text).join(" ")}</p>`}
    <p class="tools"><button type="button" onClick=${check}>Check</button>
      ${isChanged ? html`<${Action} me=${me} role=${["receive", "send"]} onClick=${send}>Send the edit<//>` : html`<button type="button" disabled>Nothing is changed yet</button>`}</p>`;
}
