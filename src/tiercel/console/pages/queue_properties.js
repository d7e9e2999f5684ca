// Properties and rights of a queue, as a form; deleting the queue.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { patch, queuePath, remove } from "../parts/api.js";
import { moment, number, plural, queueLink, size } from "../parts/format.js";
import { Action, Failure, Form } from "../parts/dialog.js";
import { Rights } from "../parts/rights.js";
import { notify } from "../parts/notice.js";

const FIXED = ["path_name", "format_name", "guid", "kind", "transactional", "created", "modified", "journal_count", "open_handles", "waiting_readers"];
const TIMES = ["created", "modified"];
const numberOrNull = (text) => (text.trim() === "" ? null : Number(text));

/** name, title, kind, hint: what a queue manager lets change. */
const FIELDS = [
  ["label", "Label", "text"], ["journaling", "Keep copies of received messages in the journal", "check"],
  ["quota_kib", "Quota, KiB", "number", "no limit"], ["journal_quota_kib", "Quota of the journal, KiB", "number", "no limit"],
  ["base_priority", "Base priority", "number"], ["authentication", "Take signed messages only", "check"],
  ["privacy_level", "Encryption", "privacy"], ["multicast_address", "Multicast address", "text", "none, or 234.1.1.1:8001"], ["type", "Type (GUID of the application)", "text"],
];
const PRIVACY = [["none", "refuse encrypted messages"], ["optional", "take both"], ["body", "take encrypted messages only"]];

function Field({ field: [name, title, kind, hint], value, disabled, onChange }) {
  if (kind === "check") return html`<label class="check"><input type="checkbox" name=${name} checked=${value} disabled=${disabled} onChange=${(event) => onChange(event.target.checked)} /> ${title}</label>`;
  if (kind === "privacy") {
    return html`<label>${title} <select name=${name} value=${value} disabled=${disabled} onChange=${(event) => onChange(event.target.value)}>${PRIVACY.map(([each, text]) => html`<option value=${each}>${text}</option>`)}</select></label>`;
  }
  const isNumber = kind === "number";
  return html`<label>${title} <input name=${name} type=${kind} value=${value ?? ""} placeholder=${hint} disabled=${disabled}
    onInput=${(event) => onChange(isNumber ? numberOrNull(event.target.value) : event.target.value)} /></label>`;
}

export function QueueProperties({ me, name, queue, onDone }) {
  const [edit, setEdit] = useState({});
  const [error, setError] = useState(null);
  const [isDeleting, setDeleting] = useState(false);
  const isOwn = ["private", "public"].includes(queue.kind);
  const mayNot = !me.roles.includes("admin") || !isOwn;
  const isSame = (each, value) => (value ?? "") === (queue[each] ?? "");
  const changes = Object.fromEntries(Object.entries(edit).filter(([each, value]) => !isSame(each, value)));
  if (changes.multicast_address === "") changes.multicast_address = null;
  const count = Object.keys(changes).length;
  const save = async () => {
    setError(null);
    try {
      const after = await patch(queuePath(name), changes);
      notify(`${plural(count, "property").replace("propertys", "properties")} of ${queue.name} changed.`);
      setEdit(Object.fromEntries(Object.keys(changes).map((each) => [each, after[each]]))); // as the queue manager writes them
      onDone();
    } catch (problem) {
      setError(problem);
    }
  };
  const text = (each, value) => (value === null || value === "" ? "–" : TIMES.includes(each) ? moment(value) : typeof value === "boolean" ? (value ? "yes" : "no") : typeof value === "number" ? number(value) : String(value));
  return html`<div class="sides"><section><h2>Properties</h2>
      <form onSubmit=${(event) => event.preventDefault()}>${FIELDS.map((field) => html`<${Field} field=${field} value=${field[0] in edit ? edit[field[0]] : queue[field[0]]} disabled=${mayNot}
        onChange=${(value) => setEdit((before) => ({ ...before, [field[0]]: value }))} />`)}</form></section>
    <section><h2>Facts</h2><dl class="pairs">${FIXED.map((each) => html`<dt>${each.replaceAll("_", " ")}</dt><dd>${text(each, queue[each])}</dd>`)}
      ${queue.subqueues.length > 0 && html`<dt>subqueues</dt><dd>${queue.subqueues.map((each) => html`<a href=${queueLink(each)}>${each}</a> `)}</dd>`}
      ${isOwn && html`<dt>journal</dt><dd><a href=${queueLink(`${queue.name};journal`)}>${plural(queue.journal_count, "message")}, ${size(queue.journal_bytes)}</a></dd>`}</dl></section></div>
    ${isOwn && html`<h2>Rights</h2><${Rights} text=${edit.security ?? queue.security ?? ""} disabled=${mayNot} onChange=${(security) => setEdit((before) => ({ ...before, security }))} />`}
    <${Failure} error=${error} />
    ${isOwn && html`<p class="tools">${count ? html`<${Action} me=${me} role="admin" primary onClick=${save}>Save ${plural(count, "change")}<//><button type="button" onClick=${() => setEdit({})}>Discard</button>`
      : html`<${Action} me=${me} role="admin" disabled>Nothing is changed yet<//>`}
      <span class="spread"></span><${Action} me=${me} role="admin" danger onClick=${() => setDeleting(true)}>Delete queue<//></p>`}
    ${isDeleting && html`<${DeleteQueue} queue=${queue} onClose=${() => setDeleting(false)} />`}`;
}

function DeleteQueue({ queue, onClose }) {
  const total = queue.count + queue.journal_count;
  const act = async (values) => {
    if (total && values.count !== String(total)) throw new Error(`Type ${total} to confirm.`);
    await remove(queuePath(queue.name));
    notify(`Queue ${queue.name} deleted.`);
    location.hash = "#/";
  };
  return html`<${Form} title=${`Delete the queue ${queue.name}`} label="Delete" danger act=${act} onClose=${onClose}>
    <p>${total ? `The queue ends, and with it ${plural(total, "message")}, its journal included.` : "The queue is empty."} It cannot be undone.</p>
    ${total > 0 && html`<label>Number of messages, to confirm <input name="count" inputmode="numeric" autocomplete="off" required autofocus /></label>`}<//>`;
}
