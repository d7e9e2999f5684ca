// Exactly-once streams between computers, and multicast groups.
import { html } from "../parts/html.js";
import { get, useData } from "../parts/api.js";
import { moment, number, queueLink, shortName, size } from "../parts/format.js";
import { Failure } from "../parts/dialog.js";

export function StreamsPage() {
  const load = (options) => Promise.all([get("/streams", {}, options), get("/multicast", {}, options)]);
  const { data, error } = useData(load, [], 10_000);
  if (!data) return html`<h1>Streams</h1><${Failure} error=${error} />`;
  const [{ streams }, multicast] = data;
  return html`<h1>Streams</h1><p class="quiet">Transactional messages to or from one queue of another computer go in a stream: numbered, in order, exactly once.</p><${Failure} error=${error} />
    ${streams.length === 0 ? html`<p>There are no streams of transactional messages.</p>` : html`<table class="stacks"><thead><tr><th scope="col">Queue</th><th scope="col">Direction</th><th scope="col" class="number">Number</th><th scope="col" class="number">Acknowledged</th><th scope="col">Last change</th><th scope="col">Problem</th></tr></thead>
      <tbody>${streams.map((each) => html`<tr><th scope="row">${each.queue}${each.peer && html`<span class="quiet below">${each.direction === "in" ? "from" : "to"} <code>${each.peer}</code></span>`}</th><td data-name="Direction">${each.direction === "in" ? "incoming" : "outgoing"}</td>
        <td class="number" data-name="Number">${number(each.number)}</td><td class="number" data-name="Acknowledged">${each.acknowledged === null ? "" : number(each.acknowledged)}</td>
        <td data-name="Last change">${moment(each.last_change)}</td><td data-name="Problem" class="bad">${each.problem ?? ""}</td></tr>`)}</tbody></table>`}
    <h2>Multicast</h2>
    ${!multicast.enabled && html`<p>Multicast is off (<code>[multicast]</code> in the configuration).</p>`}
    ${multicast.groups.map((group) => html`<section class="card"><h3>${group.address}</h3><p>Queues: ${group.queues.map((each, at) => html`${at ? ", " : ""}<a href=${queueLink(shortName(each))}>${shortName(each)}</a>`)}</p>
      ${group.sources.map((each) => html`<p class="summary"><span>${each.address}</span><span>${number(each.packets)} packets</span><span>${number(each.repaired)} repaired</span><span>${number(each.lost)} lost</span></p>`)}</section>`)}
    ${multicast.sending.map((each) => html`<section class="card"><h3>Sending to ${each.address}</h3><p class="summary"><span>${number(each.packets)} packets</span><span>${number(each.repairs)} repairs</span><span>${size(each.waiting_bytes)} waiting</span></p></section>`)}`;
}
