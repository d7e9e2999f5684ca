// Where is my message? And would one arrive?
import { html } from "../parts/html.js";
import { useEffect, useState } from "../vendor/hooks.js";
import { get } from "../parts/api.js";
import { queueLink, size } from "../parts/format.js";
import { Failure } from "../parts/dialog.js";
import { Events, Since } from "../parts/life.js";
import { QueueField } from "../parts/queue_field.js";

const STATES = {
  waiting: "It waits in its queue for a reader.", held: "A reader holds it.", claimed: "A consumer has claimed it.", outgoing: "It waits for another computer.",
  delivered: "It is at its destination.", dead: "It is a dead letter.", trash: "It was deleted and can be restored.", received: "It was received.",
  ended: "It has ended.", unknown: "Nothing is known about it.",
};
const MARKS = { ok: "✓ ok", warn: "! warning", fail: "✗ fails", unknown: "? unknown" };
const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "");

export function WhyPage({ rest }) {
  const [id, setId] = useState(rest[0] || "");
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const ask = async (wanted, hops) => {
    setError(null);
    try {
      setFound(await get("/why", { id: wanted.trim(), hops: hops || undefined }));
    } catch (problem) {
      setFound(null);
      setError(problem);
    }
  };
  useEffect(() => {
    if (rest[0]) ask(rest[0], false);
  }, [rest[0]]);
  const submit = (event) => {
    event.preventDefault();
    ask(id, event.target.elements.hops.checked);
  };
  return html`<h1>Where is my message?</h1>
    <form class="tools" onSubmit=${submit}><label>Message id <input name="id" data-filter value=${id} size="52" required placeholder="{guid}\\number" onInput=${(event) => setId(event.target.value)} /></label>
      <label class="check"><input type="checkbox" name="hops" /> Ask other computers</label><button type="submit" class="primary">Find</button></form>
    <${Failure} error=${error} />
    <div role="status">${found && html`<${Story} found=${found} />`}</div>
    <h2>Would a message arrive?</h2><${Explain} />`;
}

function Story({ found }) {
  const hops = (found.hops || []).filter((hop) => hop.answer);
  const events = [...found.events.map((each) => ({ ...each, at: "" })), ...hops.flatMap((hop) => hop.answer.events.map((each) => ({ ...each, at: hop.name })))];
  events.sort((a, b) => (a.time || "").localeCompare(b.time || ""));
  return html`<section class="card"><h2>${found.label || "Message"}</h2>
    <p><b>${STATES[found.state]}</b> <span class="quiet">${[found.size ? size(found.size) : "", found.sent_by ? `sent by ${found.sent_by}` : ""].filter(Boolean).join(", ")}</span></p>
    <${Events} events=${events} />
    ${found.places.map((place) => html`<p><a href=${`${queueLink(place.queue)}/${place.lookup_id}`}>Open it in ${place.queue}</a></p>`)}
    ${found.fix && html`<p><b>What to do:</b> ${sentence(found.fix)}</p>`}
    ${found.commands.map((each) => html`<p><code>${each}</code></p>`)}
    ${(found.hops || []).filter((hop) => hop.error).map((hop) => html`<p class="quiet">${hop.name} gave no answer: ${hop.error}</p>`)}
    ${["unknown", "ended"].includes(found.state) && html`<${Since} found=${found} />`}</section>`;
}

function Explain() {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    const { queue, transactional, peer } = event.target.elements;
    setError(null);
    try {
      setFound(await get("/explain", { queue: queue.value, transactional: transactional.checked, peer: peer.checked }));
    } catch (problem) {
      setFound(null);
      setError(problem);
    }
  };
  return html`<form class="tools" onSubmit=${submit}><${QueueField} label="To queue" name="queue" placeholder="orders" required />
      <label class="check"><input type="checkbox" name="transactional" /> Transactional</label>
      <label class="check"><input type="checkbox" name="peer" /> Ask the other computer</label><button type="submit">Check</button></form>
    <${Failure} error=${error} />
    <div role="status">${found && html`<p><b>${found.would_go ? "A message would arrive." : "A message would not arrive."}</b> ${found.fix ? sentence(found.fix) : ""}</p>
      <table class="stacks"><thead><tr><th scope="col">Result</th><th scope="col">Check</th></tr></thead><tbody>${found.findings.map((each) => html`<tr>
        <td data-name="Result" class=${each.result === "fail" ? "bad" : ""}>${MARKS[each.result]}</td><td>${each.text}</td></tr>`)}</tbody></table>`}</div>`;
}
