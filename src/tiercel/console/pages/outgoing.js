// Messages for other computers, and why they wait.
import { html } from "../parts/html.js";
import { get, post, queuePath, useData } from "../parts/api.js";
import { age, number, queueLink, seconds, size } from "../parts/format.js";
import { useEvents } from "../parts/live.js";
import { useState } from "../vendor/hooks.js";
import { Action, Failure } from "../parts/dialog.js";
import { Table } from "../parts/table.js";

const STATES = {
  connected: "connected", disconnected: "not connected", disconnecting: "disconnecting", inactive: "idle", locked: "locked",
  need_validation: "not tried yet", waiting: "cannot connect", on_hold: "paused",
};
function stateOf(queue) {
  if (queue.state === "need_validation" && queue.history.length) return STATES.waiting;
  if (queue.state === "inactive" && queue.count) return "waiting to connect";
  return STATES[queue.state] || queue.state;
}

export function OutgoingPage({ me }) {
  const load = (options) => Promise.all([get("/outgoing", {}, options), get("/connections", {}, options)]);
  const { data, error, reload } = useData(load, [], 15_000);
  const [problem, setProblem] = useState(null);
  useEvents((kind) => kind === "outgoing" && reload(), [reload]);
  if (!data) return html`<h1>Outgoing</h1><${Failure} error=${error} />`;
  const [{ outgoing }, { connections }] = data;
  const act = (queue, verb = queue.paused ? "resume" : "pause") => async () => {
    try {
      await post(`${queuePath(queue.format_name)}/${verb}`);
      setProblem(null);
    } catch (failure) {
      setProblem(failure);
    }
    reload();
  };
  const isIdle = (queue) => queue.count === 0 && !queue.unacknowledged && !queue.paused;
  const [busy, idle] = [outgoing.filter((queue) => !isIdle(queue)), outgoing.filter(isIdle)];
  const next = (queue) => queue.next_try && `Next try in ${seconds((Date.parse(queue.next_try) - Date.now()) / 1000)}.`;
  return html`<h1>Outgoing</h1><${Failure} error=${error || problem} />
    ${busy.length === 0 && html`<p>No messages are waiting for other computers.</p>`}
    ${busy.map((queue) => html`<section class="card" key=${queue.format_name}>
      <h2><a href=${queueLink(queue.format_name)}>${queue.format_name}</a></h2>
      <p class="summary"><span class="tag">${stateOf(queue)}</span><span>${number(queue.count)} waiting, ${size(queue.bytes)}</span>
        ${queue.count > 0 && html`<span>oldest ${age(queue.oldest_arrival)}</span>`}${queue.unacknowledged > 0 && html`<span>${number(queue.unacknowledged)} unacknowledged</span>`}</p>
      ${queue.why && html`<p>${queue.why[0].toUpperCase()}${queue.why.slice(1)}.${queue.error_name ? html` <span class="quiet">${queue.error_name}</span>` : ""}
        ${queue.last_try && html` <span class="quiet">${age(queue.last_try)} ago</span>`} ${next(queue)}</p>`}
      ${/unknown computer name/i.test(queue.why) && html`<p><b>What to do:</b> Open the queue and move its messages to the right name, or add the name to DNS or to <code>[hosts]</code>.</p>`}
      <p class="tools"><${Action} me=${me} role="admin" onClick=${act(queue)}>${queue.paused ? "Resume" : "Pause"}<//>
        ${!queue.paused && queue.why && queue.state !== "connected" && html`<${Action} me=${me} role="admin" onClick=${act(queue, "resume")}>Try now<//>`}</p></section>`)}
    ${idle.length > 0 && html`<h2>Nothing waiting</h2><${Table} heads=${["Queue", "State", ""]} rows=${idle.map((queue) => [html`<a href=${queueLink(queue.format_name)}>${queue.format_name}</a>`, stateOf(queue),
      html`<${Action} me=${me} role="admin" onClick=${act(queue)}>Pause<//>`])} />`}
    <h2>Connections</h2>
    ${connections.length === 0 ? html`<p>There are no sessions with other queue managers.</p>` : html`<table class="stacks"><thead><tr><th scope="col">Address</th><th scope="col">Direction</th><th scope="col">State</th><th scope="col" class="number">In flight</th></tr></thead>
      <tbody>${connections.map((each) => html`<tr><th scope="row">${each.address}</th><td data-name="Direction">${each.direction === "in" ? "incoming" : "outgoing"}</td><td data-name="State">${each.state.replaceAll("_", " ")}</td><td class="number" data-name="In flight">${number(each.in_flight)}</td></tr>`)}</tbody></table>`}`;
}
