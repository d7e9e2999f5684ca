// Whoever holds messages: consumers with claims, leases, transactions, stages.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, useData } from "../parts/api.js";
import { age, moment, number, plural, seconds, size } from "../parts/format.js";
import { Action, Failure, Form } from "../parts/dialog.js";

function Table({ heads, rows, empty }) {
  if (rows.length === 0) return html`<p>${empty}</p>`;
  return html`<table class="stacks"><thead><tr>${heads.map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
    <tbody>${rows.map(([first, ...others]) => html`<tr><th scope="row">${first}</th>${others.map((cell, at) => html`<td data-name=${heads[at + 1]}>${cell}</td>`)}</tr>`)}</tbody></table>`;
}

export function ConsumersPage({ me }) {
  const load = (options) => Promise.all(["/claims", "/leases", "/transactions", "/stages"].map((path) => get(path, {}, options)));
  const { data, error, reload } = useData(load, [], 5_000);
  const [chosen, choose] = useState(null);
  if (!data) return html`<h1>Consumers</h1><${Failure} error=${error} />`;
  const [{ claims }, { leases }, { transactions }, { stages }] = data;
  return html`<h1>Consumers</h1><${Failure} error=${error} />
    <h2>Claims</h2>
    <${Table} empty="No messages are claimed." heads=${["Consumer", "Queue", "Claimed", "Oldest claim", "Lag", "Oldest unclaimed", "Last seen", "Action"]}
      rows=${claims.map((each) => [each.consumer, each.queue, `${number(each.count)}, ${size(each.bytes)}`, seconds(each.age), number(each.lag), age(each.oldest_unclaimed),
        `${seconds(Date.now() / 1000 - each.last_seen)} ago`, html`<${Action} me=${me} role="admin" onClick=${() => choose(each)}>Release<//>`])} />
    <h2>Leases</h2>
    <${Table} empty="No messages are leased." heads=${["Queue", "Client", "Message", "Ends"]} rows=${leases.slice(0, 200).map((each) => [each.queue, each.who, each.lookup_id, moment(each.ends)])} />
    <h2>Transactions</h2>
    <${Table} empty="There are no open transactions." heads=${["Transaction", "State", "Sends", "Receives", "Queues"]}
      rows=${transactions.map((each) => [each.id, each.is_in_doubt ? "in doubt" : each.state, each.sends, each.receives, each.queues.join(", ")])} />
    <h2>Stages</h2>
    <${Table} empty="There are no unpublished stages." heads=${["Stage", "Messages", "Size", "Age"]} rows=${stages.map((each) => [each.stage, number(each.rows), size(each.bytes), seconds(each.age)])} />
    ${chosen && html`<${Form} title=${`Release the claims of ${chosen.consumer}`} label="Release" danger onClose=${() => choose(null)}
      act=${async () => { await post("/claims/release", { consumer: chosen.consumer, queue: chosen.queue }); reload(); }}>
      <p>${plural(chosen.count, "message")} of ${chosen.queue} go back to their places. Some may already have been processed. Do this only if the consumer will never run again.</p><//>`}`;
}
