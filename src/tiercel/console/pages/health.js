// The queue manager itself: identity, store, commits.
import { html } from "../parts/html.js";
import { get, metrics, useData } from "../parts/api.js";
import { age, moment, number, size } from "../parts/format.js";
import { Failure } from "../parts/dialog.js";

function valueOf(text, name) {
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return line === undefined ? null : Number(line.split(" ")[1]);
}

const TITLES = {
  srmp_http_support: "messages over HTTP", srmp_pgm_support: "multicast", hardened_security: "HTTP only", send_insecure_nacks: "insecure negative acknowledgements",
  routing_server: "routes for others", out_routing_server_identifier_list: "routers for what leaves", in_routing_server_identifier_list: "routers for what arrives",
};
const title = (name) => TITLES[name] ?? name.replace(/_kib$/, "").replaceAll("_", " ");

/** A property as people read it: sizes with their unit, yes or no. */
function shown(name, value) {
  if (value === null) return "no limit";
  if (Array.isArray(value)) return value.join(", ") || "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return name.endsWith("_kib") ? size(value * 1024) : String(value);
}

export function HealthPage() {
  const load = (options) => Promise.all([get("/queue-manager", {}, options), metrics(options)]);
  const { data, error } = useData(load, [], 10_000);
  if (!data) return html`<h1>Health</h1><${Failure} error=${error} />`;
  const [manager, text] = data;
  const value = (name) => valueOf(text, name);
  const [commits, spent] = [value("tiercel_commit_seconds_count"), value("tiercel_commit_seconds_sum")];
  const limit = value("tiercel_store_limit_bytes");
  return html`<h1>Health</h1><${Failure} error=${error} />
    <dl class="cards">
      <div><dt>State</dt><dd class="text">${error ? "unknown" : "works"}</dd></div>
      <div><dt>Store</dt><dd>${size(value("tiercel_store_bytes"))}${limit ? html` <small>of ${size(limit)}</small>` : ""}</dd></div>
      <div><dt>Free on disk</dt><dd>${size(value("tiercel_store_disk_free_bytes"))}</dd></div>
      <div><dt>Commits</dt><dd>${number(commits)}${commits ? html` <small>${((spent / commits) * 1000).toFixed(1)} ms each</small>` : ""}</dd></div>
      <div><dt>Refused: store full</dt><dd class=${value("tiercel_store_refusals_total") ? "bad" : ""}>${number(value("tiercel_store_refusals_total"))}</dd></div>
    </dl>
    <h2>Queue manager</h2>
    <dl class="pairs">
      <dt>name</dt><dd>${manager.name}</dd><dt>GUID</dt><dd>${manager.guid}</dd><dt>version</dt><dd>${manager.version}</dd>
      <dt>started</dt><dd>${moment(manager.started)}, ${age(manager.started)} ago</dd><dt>listens on</dt><dd>${manager.addresses.join(", ") || "–"}</dd>
      <dt>data directory</dt><dd>${manager.data}</dd><dt>queues</dt><dd>${number(manager.totals.queues)}</dd>
      ${Object.entries(manager.properties).map(([name, each]) => html`<dt>${title(name)}</dt><dd>${shown(name, each)}</dd>`)}
    </dl>`;
}
