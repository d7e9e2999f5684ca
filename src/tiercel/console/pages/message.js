// One message: body, properties, packet.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, queuePath, remove, useData } from "../parts/api.js";
import { moment, number, queueLink, shortName, size } from "../parts/format.js";
import { Action, Failure, Form } from "../parts/dialog.js";
import { Body, bytesOf } from "../parts/body.js";
import { Life } from "../parts/life.js";
import { notify } from "../parts/notice.js";
import { QueueField } from "../parts/queue_field.js";

const TIMES = ["sent_time", "arrival_time", "last_move_time"];
// What a sender may set, as the API leaves it out when it is so.
const DEFAULTS = {
  label: "–", priority: "3", delivery: "express", time_to_reach_queue: "4 days", time_to_be_received: "infinite", acknowledgements: "none", positive_journaling: "no",
  negative_journaling: "no (no dead letter if it ends)", application_tag: "0", correlation_id: "–", response_queue: "–", administration_queue: "–", body_type: "empty", extension: "–", message_class: "normal",
};
const ELSEWHERE = ["body", "decoded", "locked", "locked_by", "reason"];

export function MessagePage({ me, name, id }) {
  const path = `${queuePath(name)}/messages/${id}`;
  const { data: message, error } = useData((options) => get(path, { decode: true }, options), [path]);
  const [view, setView] = useState("body");
  const [dialog, setDialog] = useState(null);
  const back = () => {
    location.hash = queueLink(name);
  };
  const isCopy = name.startsWith(";") || /;(journal|trash)$/i.test(name);
  const hasTrash = !/;|^DIRECT=|^MULTICAST=/i.test(name);
  const drop = async () => {
    if (!hasTrash) {
      await remove(path);
      return;
    }
    const done = await post(`${queuePath(name)}/delete`, { lookup_ids: [id] });
    notify("1 message deleted.", done.id);
  };
  const crumbs = html`<p class="crumbs"><a href="#/">Overview</a> › <a href=${queueLink(name)}>${name}</a></p>`;
  if (!message) return html`${crumbs}<h1>Message</h1><${Failure} error=${error} />${!error && html`<p class="loading">Loading</p>`}`;
  const views = { body: "Body", properties: "Properties", life: "Life", packet: "Packet" };
  return html`${crumbs}
    <h1>${message.label || "Message without a label"}</h1>
    <p class="summary"><span>${size(message.body_size)}</span><span>priority ${message.priority ?? 3}</span><span>${message.delivery ?? "express"}</span>
      <span>arrived ${moment(message.arrival_time)}</span></p>
    ${message.reason && html`<p class="problem">Dead letter: ${message.reason}</p>`}
    ${message.locked_by && html`<p class="note">${held(message.locked_by)}</p>`}
    <p class="tools"><span class="choices" role="group" aria-label="View">${Object.entries(views).map(([key, title]) => html`
      <button type="button" aria-pressed=${view === key} onClick=${() => setView(key)}>${title}</button>`)}</span>
      <a class="button" href=${`#/why/${encodeURIComponent(message.id)}`}>Why is it here?</a>
      <${Action} me=${me} role=${["receive", "send"]} shortcut="e" onClick=${() => { location.hash = `#/edit/${encodeURIComponent(name)}/${id}`; }}>Edit and resend<//>
      <${Action} me=${me} role=${["receive", "send"]} onClick=${() => { location.hash = `#/edit/${encodeURIComponent(name)}/${id}?copy=1`; }}>Copy to editor<//>
      <${Action} me=${me} role=${["receive", "send"]} onClick=${() => setDialog("move")}>Move<//>
      ${isCopy && html`<${Action} me=${me} role=${["receive", "send"]} onClick=${() => setDialog("replay")}>Replay<//>`}
      <button type="button" onClick=${() => download(message)}>Download</button>
      <${Action} me=${me} role="receive" danger onClick=${() => setDialog("delete")}>Delete<//></p>
    ${view === "body" && html`<${Body} message=${message} />`}
    ${view === "properties" && html`<${Properties} message=${message} />`}
    ${view === "life" && html`<${Life} id=${message.id} />`}
    ${view === "packet" && html`<${Packet} path=${path} />`}
    ${dialog === "move" && html`<${Form} title="Move the message" label="Move" onClose=${() => setDialog(null)}
      act=${async ({ to }) => { notify(`1 message moved to ${to}.`, (await post(`${queuePath(name)}/move`, { to, lookup_ids: [id], undo: true })).operation); back(); }}>
      <${QueueField} label="To queue" required autofocus /><p class="quiet">It leaves one queue and enters the other in the same commit.</p><//>`}
    ${dialog === "replay" && html`<${Form} title="Replay the message" label="Replay" onClose=${() => setDialog(null)}
      act=${async ({ to }) => { await post(`${queuePath(name)}/replay`, { lookup_ids: [id], ...(to ? { to } : {}) }); notify("1 message replayed."); back(); }}>
      <p>It goes back to the queue that it was sent to, in one commit with leaving this one.</p>
      <${QueueField} label="To another queue (optional)" placeholder=${shortName(message.destination_queue)} autofocus /><//>`}
    ${dialog === "delete" && html`<${Form} title="Delete the message" label="Delete" danger onClose=${() => setDialog(null)}
      act=${async () => { await drop(); back(); }}><p>${hasTrash ? "It goes to the trash; for 24 hours this can be undone." : "This receives the message and drops it. It cannot be undone."}</p><//>`}`;
}

/** The body as a file, named after the label. */
function download(message) {
  const name = (message.label || "message").replace(/[^\w.-]+/g, "_").slice(0, 80);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytesOf(message.body)]));
  link.download = `${name}.${{ xml: "xml", json: "json", text: "txt" }[message.decoded?.kind] ?? "bin"}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function held(by) {
  if (by.kind === "lease") return `Held by ${by.who} until ${moment(by.until)}.`;
  if (by.kind === "transaction") return `Held by transaction ${by.id}.`;
  return by.kind === "sending" ? "It is being sent." : "Held by a reader.";
}

/** The account behind a security identifier in base64, as S-1-5-7; other bytes stay as they are. */
function sidOf(text) {
  const bytes = bytesOf(text);
  if (bytes.length < 8 || bytes[0] !== 1 || bytes.length !== 8 + 4 * bytes[1]) return text;
  const view = new DataView(bytes.buffer);
  const parts = Array.from({ length: bytes[1] }, (_, at) => view.getUint32(8 + 4 * at, true));
  return ["S-1", view.getUint16(2) * 2 ** 32 + view.getUint32(4), ...parts].join("-");
}

function Properties({ message }) {
  const text = (name, value) => (TIMES.includes(name) ? moment(value) : name === "sender_id" ? sidOf(value) : typeof value === "object" ? JSON.stringify(value) : String(value));
  const names = Object.keys(message).filter((each) => !ELSEWHERE.includes(each));
  const defaults = Object.entries(DEFAULTS).filter(([each]) => !(each in message));
  return html`<dl class="pairs">${names.map((each) => html`<dt>${each.replaceAll("_", " ")}</dt><dd>${text(each, message[each])}</dd>`)}</dl>
    <h2>At their default</h2><dl class="pairs quiet">${defaults.map(([each, value]) => html`<dt>${each.replaceAll("_", " ")}</dt><dd>${value}</dd>`)}</dl>`;
}

function Packet({ path }) {
  const { data, error } = useData((options) => get(`${path}/packet`, {}, options), [path]);
  if (!data) return html`<${Failure} error=${error} />`;
  const value = (field) => {
    const text = typeof field.value === "object" && field.value !== null ? JSON.stringify(field.value) : String(field.value);
    return text.length > 200 ? `${text.slice(0, 200)}…` : text;
  };
  return html`<p class="quiet">${number(data.size)} bytes; fields without any are left out</p>${data.structures.map((each) => html`<section>
    <h2>${each.name}</h2>
    <table class="stacks packet"><thead><tr><th scope="col" class="number">Offset</th><th scope="col" class="number">Size</th><th scope="col">Field</th><th scope="col">Value</th><th scope="col">Meaning</th></tr></thead>
    <tbody>${each.fields.filter((field) => field.size > 0).map((field) => html`<tr><td class="number" data-name="Offset">${field.offset}</td><td class="number" data-name="Size">${field.size}</td>
      <th scope="row">${field.name}</th><td class="code" data-name="Value">${value(field)}</td><td data-name="Meaning">${field.meaning ?? ""}</td></tr>`)}</tbody></table></section>`)}`;
}
