// Dead letters by cause, with the fix and a replay.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, queuePath, useData } from "../parts/api.js";
import { moment, number, plural, queueLink, shortName, size } from "../parts/format.js";
import { Action, Failure, Form } from "../parts/dialog.js";
import { QueueField } from "../parts/queue_field.js";

const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "");

export function DeadPage({ me }) {
  const { data, error, reload } = useData((options) => get("/dead", {}, options), [], 15_000);
  const [chosen, choose] = useState(null);
  if (!data) return html`<h1>Dead letters</h1><${Failure} error=${error} />`;
  return html`<h1>Dead letters</h1>
    <p class="summary"><span>${plural(data.total, "message")} in <a href=${queueLink(";deadletter")}>;deadletter</a> and <a href=${queueLink(";deadxact")}>;deadxact</a></span>
      ${data.looked < data.total && html`<span>the newest ${number(data.looked)} are grouped</span>`}</p>
    <${Failure} error=${error} />
    ${data.groups.length === 0 && html`<p>There are no dead letters.</p>`}
    ${data.groups.map((group) => html`<section class="card">
      <h2>${plural(group.count, "message")} for ${shortName(group.destination) || "an unknown queue"}</h2>
      <p>${sentence(group.reason || "the reason is unknown: stored by an older version")}</p>
      ${group.fix && html`<p><b>What to do:</b> ${sentence(group.fix)}</p>`}
      <p class="quiet">first ${moment(group.first)}, last ${moment(group.last)}, ${size(group.bytes)}</p>
      <p class="tools"><${Action} me=${me} role=${["receive", "send"]} onClick=${() => choose(group)}>Replay<//></p></section>`)}
    ${chosen && html`<${Replay} group=${chosen} onClose=${() => choose(null)} onDone=${reload} />`}`;
}

function Replay({ group, onClose, onDone }) {
  const ids = Object.entries(group.lookup_ids);
  const listed = ids.reduce((total, [, each]) => total + each.length, 0);
  const act = async ({ to }) => {
    for (const [queue, lookup_ids] of ids) await post(`${queuePath(queue)}/replay`, { lookup_ids, ...(to ? { to } : {}) });
    onDone();
  };
  return html`<${Form} title=${`Replay ${plural(listed, "message")}`} label="Replay" act=${act} onClose=${onClose}>
    <p>Each message goes back to the queue that it was sent to, in one commit with leaving the dead letters.</p>
    ${listed < group.count && html`<p>${number(group.count - listed)} more stay; replay again for them.</p>`}
    <${QueueField} label="To another queue (optional)" placeholder=${shortName(group.destination)} autofocus />
  <//>`;
}
