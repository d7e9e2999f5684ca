// Work on many messages: progress, pause, cancel, undo. And who changed what.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, useData } from "../parts/api.js";
import { moment, number, plural, queueLink, size } from "../parts/format.js";
import { Action, Failure } from "../parts/dialog.js";
import { notify } from "../parts/notice.js";

const STATES = { running: "running", paused: "paused", failed: "failed", finished: "finished", cancelled: "cancelled", done: "can be undone", undone: "undone", over: "trash emptied" };
const BUTTONS = { running: ["pause", "cancel"], paused: ["resume", "cancel"], failed: ["resume", "cancel"], done: ["undo"] };
const TITLES = { pause: "Pause", resume: "Resume", cancel: "Cancel", undo: "Undo" };

function details({ request = {}, note }) {
  const [text] = request.query ?? [];
  return [request.to && `to ${request.to}`, text && `matching ${text}`, request.rate && `at most ${number(request.rate)} a second`, note].filter(Boolean).join("; ");
}

export function OperationsPage({ me }) {
  const [isBusy, setBusy] = useState(false);
  const load = async (options) => {
    const found = await get("/operations", {}, options);
    setBusy(found.operations.some((each) => each.state === "running"));
    return found;
  };
  const { data, error, reload } = useData(load, [], isBusy ? 1_000 : 10_000);
  const [problem, setProblem] = useState(null);
  const act = (operation, what) => async () => {
    try {
      const done = await post(`/operations/${operation.id}/${what}`);
      if (what === "undo") notify(`${plural(done.restored, "message")} put back into ${done.queue}.`);
      setProblem(null);
    } catch (failure) {
      setProblem(failure);
    }
    reload();
  };
  const rows = data?.operations ?? [];
  return html`<h1>Operations</h1><p class="quiet">Work on many messages runs in the queue manager and goes on after a restart. Deleted messages stay in the trash of their queue for a while, usually 24 hours. Undo puts them back into their old places, and what was moved or replayed within this computer, too, unless somebody has received it.</p>
    <${Failure} error=${error || problem} />
    ${data && rows.length === 0 && html`<p>Nothing was deleted, edited or moved in the background.</p>`}
    ${rows.length > 0 && html`<table class="stacks"><thead><tr><th scope="col">What</th><th scope="col">Queue</th><th scope="col">Time</th><th scope="col" class="number">Messages</th><th scope="col" class="number">Size</th><th scope="col">Who</th><th scope="col">State</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
      <tbody>${rows.map((each) => html`<tr key=${each.id}><th scope="row">${each.kind} ${each.id}${details(each) && html`<span class="quiet below">${details(each)}</span>`}</th><td data-name="Queue"><a href=${queueLink(each.queue)}>${each.queue}</a></td><td data-name="Time">${moment(each.time)}</td>
        <td class="number" data-name="Messages">${number(each.count)}</td><td class="number" data-name="Size">${size(each.bytes)}</td><td data-name="Who">${each.who}</td>
        <td data-name="State">${STATES[each.state] ?? each.state}${each.state === "running" && each.total > 0 && html` <progress max=${each.total} value=${Math.min(each.looked, each.total)} aria-label=${`Progress of ${each.kind} ${each.id}`}></progress>`}</td>
        <td><span class="choices">${(BUTTONS[each.state] ?? []).map((what) => html`<${Action} me=${me} role="receive" danger=${what === "cancel"} onClick=${act(each, what)}>${TITLES[what]}<//>`)}</span></td></tr>`)}</tbody></table>`}`;
}

const APART = ["line", "time", "who", "what", "subject", "previous"];

export function AuditPage() {
  const [before, setBefore] = useState(null);
  const { data, error } = useData((options) => get("/audit", { before }, options), [before], before ? 0 : 10_000);
  const details = (line) => Object.entries(line).filter(([name, value]) => !APART.includes(name) && !(name === "address" && value === line.who))
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
  return html`<h1>Audit</h1><p class="quiet">Each line was written in the commit of the change and holds the SHA-256 of the line before; <code>tiercel check</code> verifies the chain.</p>
    <${Failure} error=${error} />
    ${data && html`<table class="stacks"><thead><tr><th scope="col" class="number">Line</th><th scope="col">Time</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">Subject</th><th scope="col">Details</th></tr></thead>
      <tbody>${data.lines.map((line) => html`<tr key=${line.line}><td class="number" data-name="Line">${line.line}</td><td data-name="Time">${moment(line.time)}</td><td data-name="Who">${line.who}</td>
        <th scope="row">${line.what}</th><td data-name="Subject">${line.subject}</td><td data-name="Details">${details(line)}</td></tr>`)}</tbody></table>
      <p class="tools">${before && html`<button type="button" onClick=${() => setBefore(null)}>Newest</button>`}${data.next && html`<button type="button" onClick=${() => setBefore(data.next)}>Older</button>`}</p>`}`;
}
