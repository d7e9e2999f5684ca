// Dead letters by cause, with the fix and a replay.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, queuePath, useData } from "../parts/api.js";
import { moment, number, plural, queueLink, shortName, size } from "../parts/format.js";
import { Action, Failure, Form } from "../parts/dialog.js";
import { follow, notify } from "../parts/notice.js";
import { QueueField } from "../parts/queue_field.js";

const FIRST = 5;

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

/** A dry run counts the group, also what is not among the newest; its plan bounds the replay. */
function Replay({ group, onClose, onDone }) {
  const [counted, setCounted] = useState(null);
  const count = async (to) => {
    if (!group.filter) throw new Error("The name of the queue is too long for a filter. Open the dead letters, and choose the messages.");
    const goal = to ? { to } : {};
    const plans = [];
    for (const [queue, [first]] of Object.entries(group.lookup_ids)) {
      await post(`${queuePath(queue)}/replay`, { lookup_ids: [first], ...goal, dry_run: true }); // opens the destination
      const path = `${queuePath(queue)}/operations`;
      const request = { action: "replay", filter: group.filter, ...goal };
      const found = await post(path, { ...request, dry_run: true });
      const { messages } = await get(`${queuePath(queue)}/search`, { filter: group.filter, limit: FIRST });
      if (found.count > 0) plans.push({ path, request: { ...request, plan: found.plan }, found, queue, messages });
    }
    setCounted({ plans, to, count: plans.reduce((sum, each) => sum + each.found.count, 0), bytes: plans.reduce((sum, each) => sum + each.found.bytes, 0) });
  };
  const act = async ({ to, rate }) => {
    if (!counted) {
      await count(to);
      return true; // the dialog stays, and shows what was counted
    }
    const limits = rate ? { rate: Number(rate) } : {};
    run(counted.plans.map(({ path, request }) => () => post(path, { ...request, ...limits })), onDone).catch((problem) => notify(problem.message));
    return false;
  };
  return html`<${Form} title=${`Replay ${plural(group.count, "message")}`} label=${counted ? "Replay" : "Count"} act=${act} onClose=${onClose}>
    ${!counted && html`<p>Each message goes back to the queue that it was sent to, in one commit with leaving the dead letters.</p>`}
    <${QueueField} label="To another queue (optional)" placeholder=${shortName(group.destination)} autofocus readonly=${Boolean(counted)} />
    ${counted && html`<${Counted} counted=${counted} destination=${group.destination} />
      <label>At most, messages per second (optional) <input name="rate" type="number" min="1" max="1000000" placeholder="no limit" /></label>`}
  <//>`;
}

function Counted({ counted, destination }) {
  const shown = counted.plans.flatMap((each) => each.messages).slice(0, FIRST);
  const more = counted.count - shown.length;
  return html`<div role="status"><p>${plural(counted.count, "message")} (${size(counted.bytes)}) of ${counted.plans.map((each) => each.queue).join(" and ") || "the dead letters"} would go to ${counted.to || shortName(destination)}. Messages that arrive from now on stay.</p>
    <ul class="first">${shown.map((each) => html`<li>${each.label || html`<i>no label</i>`}</li>`)}${more > 0 && html`<li class="quiet">and ${number(more)} more</li>`}</ul></div>`;
}

/** One operation for each of the two dead-letter queues, one after the other. */
async function run(operations, onDone) {
  const done = [];
  for (const begin of operations) done.push(await follow(await begin(), "replayed", onDone, done));
}
