// Deletions and edits, which can be undone, and who changed what.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, useData } from "../parts/api.js";
import { moment, number, plural, queueLink, size } from "../parts/format.js";
import { Action, Failure } from "../parts/dialog.js";
import { notify } from "../parts/notice.js";

const STATES = { done: "can be undone", undone: "undone", over: "trash emptied" };

export function OperationsPage({ me }) {
  const { data, error, reload } = useData((options) => get("/operations", {}, options), [], 10_000);
  const [problem, setProblem] = useState(null);
  const undo = (operation) => async () => {
    try {
      const done = await post(`/operations/${operation.id}/undo`);
      notify(`${plural(done.restored, "message")} put back into ${done.queue}.`);
      setProblem(null);
    } catch (failure) {
      setProblem(failure);
    }
    reload();
  };
  const rows = data?.operations ?? [];
  return html`<h1>Operations</h1><p class="quiet">Deleted messages stay in the trash of their queue for 24 hours. Undo puts them back into their old places.</p>
    <${Failure} error=${error || problem} />
    ${data && rows.length === 0 && html`<p>Nothing was deleted or edited.</p>`}
    ${rows.length > 0 && html`<table class="stacks"><thead><tr><th scope="col">What</th><th scope="col">Queue</th><th scope="col">Time</th><th scope="col" class="number">Messages</th><th scope="col" class="number">Size</th><th scope="col">Who</th><th scope="col">State</th><th scope="col"><span class="sr">Undo</span></th></tr></thead>
      <tbody>${rows.map((each) => html`<tr key=${each.id}><th scope="row">${each.kind} ${each.id}</th><td data-name="Queue"><a href=${queueLink(each.queue)}>${each.queue}</a></td><td data-name="Time">${moment(each.time)}</td>
        <td class="number" data-name="Messages">${number(each.count)}</td><td class="number" data-name="Size">${size(each.bytes)}</td><td data-name="Who">${each.who}</td><td data-name="State">${STATES[each.state]}</td>
        <td>${each.state === "done" && html`<${Action} me=${me} role="receive" onClick=${undo(each)}>Undo<//>`}</td></tr>`)}</tbody></table>`}`;
}

const APART = ["line", "time", "who", "what", "subject", "previous"];

export function AuditPage() {
  const [before, setBefore] = useState(null);
  const { data, error } = useData((options) => get("/audit", { before }, options), [before], before ? 0 : 10_000);
  const details = (line) => Object.entries(line).filter(([name]) => !APART.includes(name))
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
  return html`<h1>Audit</h1><p class="quiet">Each line was written in the commit of the change and holds the SHA-256 of the line before; <code>tiercel check</code> verifies the chain.</p>
    <${Failure} error=${error} />
    ${data && html`<table class="stacks"><thead><tr><th scope="col" class="number">Line</th><th scope="col">Time</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">Subject</th><th scope="col">Details</th></tr></thead>
      <tbody>${data.lines.map((line) => html`<tr key=${line.line}><td class="number" data-name="Line">${line.line}</td><td data-name="Time">${moment(line.time)}</td><td data-name="Who">${line.who}</td>
        <th scope="row">${line.what}</th><td data-name="Subject">${line.subject}</td><td data-name="Details">${details(line)}</td></tr>`)}</tbody></table>
      <p class="tools">${before && html`<button type="button" onClick=${() => setBefore(null)}>Newest</button>`}${data.next && html`<button type="button" onClick=${() => setBefore(data.next)}>Older</button>`}</p>`}`;
}
