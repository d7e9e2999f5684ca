// Open transactions; those in doubt are decided here if their coordinator cannot.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, useData } from "../parts/api.js";
import { age, number, plural, shortName } from "../parts/format.js";
import { Action, Failure, Form } from "../parts/dialog.js";
import { Table } from "../parts/table.js";
import { notify } from "../parts/notice.js";

const work = (each) => [[each.sends, "send"], [each.receives, "receive"], [each.moves, "move"]].filter(([count]) => count).map(([count, noun]) => plural(count, noun)).join(", ") || "nothing yet";

export function TransactionsPage({ me }) {
  const { data, error, reload } = useData((options) => get("/transactions", {}, options), [], 5_000);
  const [chosen, choose] = useState(null);
  if (!data) return html`<h1>Transactions</h1><${Failure} error=${error} />${!error && html`<p class="loading">Loading</p>`}`;
  const doubtful = data.transactions.filter((each) => each.is_in_doubt);
  const open = data.transactions.filter((each) => !each.is_in_doubt);
  const buttons = (each) => html`<span class="choices"><${Action} me=${me} role="admin" onClick=${() => choose([each, "commit"])}>Commit<//>
    <${Action} me=${me} role="admin" danger onClick=${() => choose([each, "abort"])}>Abort<//></span>`;
  const row = (each) => [html`<span class="code">${each.id}</span>`, each.began ? age(each.began) : "unknown", work(each), each.queues.map(shortName).join(", ")];
  const heads = ["Transaction", "Age", "Work", "Queues"];
  return html`<h1>Transactions</h1><${Failure} error=${error} />
    <h2>In doubt</h2>
    ${doubtful.length > 0 && html`<p class="note">${plural(doubtful.length, "transaction")} prepared, and the coordinator has not told the outcome. Decide only if it never will, and as the other participants did:
      one that commits what the others aborted loses or doubles messages.</p>`}
    <${Table} empty="No transaction is in doubt." heads=${[...heads, ""]} rows=${doubtful.map((each) => [...row(each), buttons(each)])} />
    <h2>Open</h2><p class="quiet">Messages that these send are not visible yet, and those that they receive are held.</p>
    <${Table} empty="There are no open transactions." heads=${heads} rows=${open.slice(0, 200).map(row)} />
    ${open.length > 200 && html`<p class="quiet">The first 200 of ${number(open.length)} are shown.</p>`}
    ${chosen && html`<${Decide} transaction=${chosen[0]} how=${chosen[1]} onClose=${() => choose(null)} onDone=${reload} />`}`;
}

function Decide({ transaction, how, onClose, onDone }) {
  const act = async () => {
    const done = await post(`/transactions/${transaction.id}/${how}`);
    notify(`Transaction ${done.id} ${done.outcome}.`);
    onDone();
  };
  const title = how === "commit" ? "Commit" : "Abort";
  return html`<${Form} title=${`${title} the transaction`} label=${title} danger act=${act} onClose=${onClose}>
    <p class="code">${transaction.id}</p>
    <p>${how === "commit" ? `Its work happens: ${work(transaction)}.` : `Its work does not happen (${work(transaction)}): received messages go back to their places.`} It cannot be undone.</p><//>`;
}
