// The access list of a queue: SDDL as text, and as a table that changes the text.
import { html } from "./html.js";
import { get, useData } from "./api.js";

const WHO = { WD: "Everyone", AN: "Anonymous", AU: "Authenticated users", BA: "Administrators", SY: "System", BU: "Users", BG: "Guests", CO: "Creator", OW: "Owner" };
const BITS = {
  DELETE_MESSAGE: 0x1, PEEK_MESSAGE: 0x2, WRITE_MESSAGE: 0x4, DELETE_JOURNAL_MESSAGE: 0x8, SET_QUEUE_PROPERTIES: 0x10, GET_QUEUE_PROPERTIES: 0x20, DELETE_QUEUE: 0x10000,
  GET_QUEUE_PERMISSIONS: 0x20000, CHANGE_QUEUE_PERMISSIONS: 0x40000, TAKE_QUEUE_OWNERSHIP: 0x80000, RECEIVE_MESSAGE: 0x3, RECEIVE_JOURNAL_MESSAGE: 0xa,
  QUEUE_GENERIC_READ: 0x2002b, QUEUE_GENERIC_WRITE: 0x20024, QUEUE_GENERIC_ALL: 0xf003f, GA: 0xf003f, GR: 0x2002b, GW: 0x20024,
};
const SEND = 0x4;
const OTHER = "other";
const NOBODY = "S-1-0-0"; // until another one is typed
const NONE = { accounts: [] };
const SHOWN = [["Send", 0x4], ["Peek", 0x2], ["Receive", 0x3], ["All rights", 0xf003f]];
const LIST = /^(.*?D:(?:P|AR|AI)*)((?:\([^()]*\))*)(S:.*)?$/;

function maskOf(text) {
  return text.split("|").reduce((mask, word) => {
    const value = BITS[word] ?? (/^0x[0-9a-f]{1,8}$/i.test(word) ? Number(word) : NaN);
    return Number.isNaN(value) ? NaN : (mask | value) >>> 0;
  }, 0);
}

/** {before, entries, after}, or null if the text says something that the table cannot show. */
export function parse(text) {
  const found = LIST.exec(text);
  if (!found) return null;
  const entries = (found[2].match(/\([^()]*\)/g) ?? []).map((each) => {
    const [kind, flags, rights, , , who] = each.slice(1, -1).split(";");
    return { kind, flags, mask: maskOf(rights ?? ""), who };
  });
  const isPlain = entries.every((each) => ["A", "D"].includes(each.kind) && !each.flags && !Number.isNaN(each.mask) && each.who);
  return isPlain ? { before: found[1], entries, after: found[3] ?? "" } : null;
}

export function format({ before, entries, after }) {
  return before + entries.map((each) => `(${each.kind};;0x${each.mask.toString(16)};;;${each.who})`).join("") + after;
}

export function Rights({ text, onChange, disabled }) {
  const known = parse(text);
  const { data } = useData((options) => (disabled ? NONE : get("/accounts", {}, options)), [disabled]); // a list that may be changed is an administrator's
  const { accounts } = data ?? NONE;
  const nameOf = (who) => accounts.find((each) => each.sid === who)?.name ?? who;
  const change = (at, values) => onChange(format({ ...known, entries: known.entries.map((each, index) => (index === at ? { ...each, ...values } : each)) }));
  const row = (each, at) => html`<tr>
    <th scope="row"><select aria-label=${`Account ${at + 1}`} value=${each.who in WHO ? each.who : OTHER} disabled=${disabled} onChange=${(event) => change(at, { who: event.target.value === OTHER ? NOBODY : event.target.value })}>
        ${Object.entries(WHO).map(([token, name]) => html`<option value=${token}>${name}</option>`)}<option value=${OTHER}>Another account, by name or SID</option></select>
      ${!(each.who in WHO) && html`<input class="code below" value=${nameOf(each.who)} size="28" list="accounts" aria-label=${`Name or SID of account ${at + 1}`} disabled=${disabled} onChange=${(event) => change(at, { who: event.target.value.trim() })} />`}</th>
    <td data-name="Kind"><select aria-label=${`Kind of entry ${at + 1}`} value=${each.kind} disabled=${disabled} onChange=${(event) => change(at, { kind: event.target.value })}><option value="A">allow</option><option value="D">deny</option></select></td>
    ${SHOWN.map(([name, bits]) => html`<td data-name=${name}><input type="checkbox" aria-label=${`${name}, entry ${at + 1}`} disabled=${disabled} checked=${(each.mask & bits) === bits}
      onChange=${(event) => change(at, { mask: (event.target.checked ? each.mask | bits : each.mask & ~bits) >>> 0 })} /></td>`)}
    <td><button type="button" disabled=${disabled} aria-label=${`Remove entry ${at + 1}`} onClick=${() => onChange(format({ ...known, entries: known.entries.filter((_, index) => index !== at) }))}>Remove</button></td></tr>`;
  const add = () => onChange(format({ ...known, entries: [...known.entries, { kind: "A", mask: SEND, who: "WD" }] }));
  return html`<datalist id="accounts">${accounts.map((each) => html`<option value=${each.name} />`)}</datalist>
    <p class="quiet">Entries count from the top: the first that names a right of the account decides. Accounts that are not listed have no rights.</p>
    ${known ? html`<table class="stacks"><thead><tr><th scope="col">Account</th><th scope="col">Kind</th>${SHOWN.map(([name]) => html`<th scope="col">${name}</th>`)}<th scope="col"><span class="sr">Actions</span></th></tr></thead>
        <tbody>${known.entries.map(row)}</tbody></table>
      <p class="tools"><button type="button" disabled=${disabled} onClick=${add}>Add an entry</button></p>`
      : html`<p class="quiet">${text ? "The table cannot show this list; change the text." : "There is no list of its own."}</p>`}
    <details open=${text && !known}><summary>As text (SDDL)</summary><textarea aria-label="As text (SDDL)" name="security" rows="3" class="code" value=${text} disabled=${disabled} onInput=${(event) => onChange(event.target.value)}></textarea></details>`;
}
