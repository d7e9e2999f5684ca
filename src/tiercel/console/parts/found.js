// Messages that a search or a tail has found, as a table.
import { html } from "./html.js";
import { moment, queueLink, size } from "./format.js";

/** With `chosen`, a set of lookup ids, each row has a box to choose it. */
export function FoundMessages({ name, messages, chosen, onChoose }) {
  return html`<table class="stacks"><thead><tr>${chosen && html`<th scope="col"><span class="sr">Chosen</span></th>`}<th scope="col">Label</th><th scope="col">Arrived</th><th scope="col" class="number">Priority</th><th scope="col" class="number">Size</th></tr></thead>
    <tbody>${messages.map((each) => html`<tr key=${each.lookup_id}>
      ${chosen && html`<td class="choose"><input type="checkbox" aria-label=${`Choose ${each.label || "message without a label"}`} checked=${chosen.has(each.lookup_id)} onChange=${() => onChoose(each)} /></td>`}
      <th scope="row"><a href=${`${queueLink(name)}/${each.lookup_id}`}>${each.label || html`<i>no label</i>`}</a></th>
      <td data-name="Arrived">${moment(each.arrival_time)}</td><td class="number" data-name="Priority">${each.priority ?? 3}</td><td class="number" data-name="Size">${size(each.body_size)}</td></tr>`)}</tbody></table>`;
}
