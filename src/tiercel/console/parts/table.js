// A table whose rows stack on a phone; its first column names the row.
import { html } from "./html.js";

export function Table({ heads, rows, empty }) {
  if (rows.length === 0) return html`<p>${empty}</p>`;
  const name = (head) => head && html`<th scope="col">${head}</th>`;
  return html`<table class="stacks"><thead><tr>${heads.map((each) => name(each) || html`<th scope="col"><span class="sr">Actions</span></th>`)}</tr></thead>
    <tbody>${rows.map(([first, ...others]) => html`<tr><th scope="row">${first}</th>${others.map((cell, at) => html`<td data-name=${heads[at + 1] || undefined}>${cell}</td>`)}</tr>`)}</tbody></table>`;
}
