// What happened to a message, in the order of time.
import { html } from "./html.js";
import { get, useData } from "./api.js";
import { moment } from "./format.js";
import { Failure } from "./dialog.js";

const local = (text) => text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, moment);

/** `events` with a time and a text; `at` names another computer that knows of it. */
export function Events({ events }) {
  if (events.length === 0) return null;
  return html`<ol class="life">${events.map((each) => html`<li><time datetime=${each.time}>${moment(each.time)}</time> <span>${each.at ? `${each.at}: ` : ""}${local(each.text)}</span></li>`)}</ol>`;
}

/** How far back the records go, for a message of which little is known. */
export function Since({ found }) {
  const life = found.life_since ? `Events are recorded since ${moment(found.life_since)}.` : "The life of messages is not recorded ([life] in the configuration), or nothing has happened yet.";
  const discards = found.discards_since ? `Dropped messages are listed since ${moment(found.discards_since)}.` : "No message was ever dropped here.";
  return html`<p class="quiet">${life} ${discards}</p>`;
}

export function Life({ id }) {
  const { data, error } = useData((options) => get("/why", { id }, options), [id], 5_000);
  if (!data) return html`<${Failure} error=${error} />${!error && html`<p class="loading">Loading</p>`}`;
  return html`<${Failure} error=${error} /><${Events} events=${data.events} />
    ${data.events.length === 0 && html`<p>Nothing is known about it.</p>`}<${Since} found=${data} />`;
}
