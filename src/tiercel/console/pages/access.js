// Who has access: tokens, roles, last use.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, remove, useData } from "../parts/api.js";
import { age, moment, plural } from "../parts/format.js";
import { Action, Failure, Form } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { notify } from "../parts/notice.js";

const ROLES = [
  ["read", "look at queues and messages"], ["send", "send messages"], ["receive", "look, receive, delete and undo"], ["admin", "everything"],
];

export function AccessPage({ me }) {
  const { data, error, reload } = useData((options) => get("/tokens", {}, options), [], 15_000);
  const [chosen, choose] = useState(null);
  if (!data) return html`<h1>Access</h1><${Failure} error=${error} />${!error && html`<p class="loading">Loading</p>`}`;
  const revoke = async () => {
    await remove(`/tokens/${encodeURIComponent(chosen.name)}`);
    notify(`Token ${chosen.name} revoked.`);
    reload();
  };
  const button = (token) => (token.is_own ? html`<span class="quiet">this login</span>` : html`<${Action} me=${me} role="admin" danger onClick=${() => choose(token)}>Revoke<//>`);
  return html`<h1>Access</h1><${Failure} error=${error} />
    ${data.file === null ? html`<p class="note">There are no tokens: every program of this computer has all roles, and other computers have none. <code>[api] tokens</code> names a file of tokens.</p>`
      : html`<p class="quiet">Tokens of <code>${data.file}</code>. Add one with <code>tiercel token add NAME --role read --file ${data.file}</code>.</p>
        <${Table} empty="The file has no tokens, or cannot be read: see the log." heads=${["Token", "Roles", "Last used", "Logged in", ""]}
          rows=${data.tokens.map((each) => [each.name, each.roles.join(", "), each.last_used ? html`<span title=${moment(each.last_used)}>${age(each.last_used)} ago</span>` : "not since the start",
            each.logins ? plural(each.logins, "browser") : "", button(each)])} />`}
    <h2>Roles</h2><dl class="pairs">${ROLES.map(([role, text]) => html`<dt>${role}</dt><dd>${text}</dd>`)}</dl>
    ${chosen && html`<${Form} title=${`Revoke ${chosen.name}`} label="Revoke" danger act=${revoke} onClose=${() => choose(null)}>
      <p>Whoever uses this token loses access at once${chosen.logins ? `, ${plural(chosen.logins, "browser")} included` : ""}. It cannot be undone: a new token has another value.</p><//>`}`;
}
