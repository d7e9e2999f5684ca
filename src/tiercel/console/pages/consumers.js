// Whoever holds messages: consumers with claims, leases, stages.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, useData } from "../parts/api.js";
import { age, moment, number, plural, queueLink, seconds, shortName, size } from "../parts/format.js";
import { Action, Failure, Form } from "../parts/dialog.js";
import { Table } from "../parts/table.js";

const link = (path) => html`<a href=${queueLink(shortName(path))}>${shortName(path)}</a>`;
const messageLink = ({ queue, lookup_id }) => html`<a href=${`${queueLink(shortName(queue))}/${lookup_id}`}>${lookup_id}</a>`;

export function ConsumersPage({ me }) {
  const load = (options) => Promise.all(["/claims", "/leases", "/stages"].map((path) => get(path, {}, options)));
  const { data, error, reload } = useData(load, [], 5_000);
  const [chosen, choose] = useState(null);
  if (!data) return html`<h1>Consumers</h1><${Failure} error=${error} />`;
  const [{ claims }, { leases }, { stages }] = data;
  return html`<h1>Consumers</h1><${Failure} error=${error} />
    <h2>Claims</h2><p class="quiet">Messages that a consumer such as Spark has taken and not yet acknowledged. Nobody else sees them.</p>
    <${Table} empty="No messages are claimed." heads=${["Consumer", "Queue", "Claimed", "Oldest claim", "Lag", "Oldest unclaimed", "Last seen", ""]}
      rows=${claims.map((each) => [each.consumer, link(each.queue), `${number(each.count)}, ${size(each.bytes)}`, seconds(each.age), number(each.lag), age(each.oldest_unclaimed),
        `${seconds(Date.now() / 1000 - each.last_seen)} ago`, html`<${Action} me=${me} role="admin" onClick=${() => choose(each)}>Release<//>`])} />
    <h2>Leases</h2><p class="quiet">Messages that a client of the API holds. They come back when the lease ends.</p>
    <${Table} empty="No messages are leased." heads=${["Queue", "Client", "Message", "Ends"]} rows=${leases.slice(0, 200).map((each) => [link(each.queue), each.who, messageLink(each), moment(each.ends)])} />
    <h2>Stages</h2><p class="quiet">Messages that a writer such as Spark has brought and not yet published. Nobody sees them.</p>
    <${Table} empty="There are no unpublished stages." heads=${["Stage", "Messages", "Size", "Age"]} rows=${stages.map((each) => [each.stage, number(each.rows), size(each.bytes), seconds(each.age)])} />
    ${chosen && html`<${Form} title=${`Release the claims of ${chosen.consumer}`} label="Release" danger onClose=${() => choose(null)}
      act=${async () => { await post("/claims/release", { consumer: chosen.consumer, queue: chosen.queue }); reload(); }}>
      <p>${plural(chosen.count, "message")} of ${shortName(chosen.queue)} go back to their places. Some may already have been processed. Do this only if the consumer will never run again.</p><//>`}`;
}
