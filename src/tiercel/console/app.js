// The shell: navigation, login, keyboard. Pages are chosen by the fragment of the URL.
import { render } from "./vendor/preact.js";
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { html } from "./parts/html.js";
import { get, logOut, session } from "./parts/api.js";
import { usePlace } from "./parts/place.js";
import { connect, disconnect, useStatus } from "./parts/live.js";
import { moment } from "./parts/format.js";
import { Dialog, Failure } from "./parts/dialog.js";
import { Login } from "./pages/login.js";
import { Overview } from "./pages/overview.js";
import { QueuePage } from "./pages/queue.js";
import { MessagePage } from "./pages/message.js";
import { DeadPage } from "./pages/dead.js";
import { SendPage } from "./pages/send.js";
import { OutgoingPage } from "./pages/outgoing.js";
import { ConsumersPage } from "./pages/consumers.js";
import { HealthPage } from "./pages/health.js";
import { WhyPage } from "./pages/why.js";
import { EditPage } from "./pages/edit.js";
import { StreamsPage } from "./pages/streams.js";
import { AuditPage, OperationsPage } from "./pages/operations.js";
import { TransactionsPage } from "./pages/transactions.js";
import { AccessPage } from "./pages/access.js";
import { Notice } from "./parts/notice.js";

const PAGES = [
  ["", "Overview", "q", Overview],
  ["why", "Why", "w", WhyPage],
  ["send", "Send", "m", SendPage],
  ["dead", "Dead letters", "d", DeadPage],
  ["outgoing", "Outgoing", "o", OutgoingPage],
  ["consumers", "Consumers", "c", ConsumersPage],
  ["transactions", "Transactions", "t", TransactionsPage],
  ["streams", "Streams", "s", StreamsPage],
  ["operations", "Operations", "u", OperationsPage],
  ["audit", "Audit", "a", AuditPage],
  ["access", "Access", "l", AccessPage],
  ["health", "Health", "h", HealthPage],
];
const ROLES = { audit: "admin", access: "admin", send: "send" };
const roleOf = (page) => ROLES[page] ?? "read";
const mayRead = (me) => me.roles.includes("read");

/** Said once for a page that the token may not see, instead of an error for each request. */
function Refused({ me, role, title }) {
  return html`<h1>${title}</h1><p class="problem" role="alert">The token ${me.name} lacks the role ${role}, which this page needs; its roles: ${me.roles.join(", ") || "none"}.
    Log in with another token, or let an administrator make one with <code>tiercel token add NAME --role ${role}</code>.</p>
    ${me.roles.includes("send") && role === "read" && html`<p><a class="button" href="#/send">Send a message</a></p>`}`;
}

const keysOf = (me) => [
  ["/", "filter or search"], ["j k ↓ ↑", "next and previous row"], ["Enter", "open it"], ["x", "choose it"], ["e", "edit and resend it"],
  ...PAGES.filter(([name]) => me.roles.includes(roleOf(name))).map(([, title, key]) => [`g ${key}`, title.toLowerCase()]), ["?", "this list"], ["Esc", "close"],
];

/** Moves the focus to the next or previous row: into the list of messages, or among the links of a table. */
function step(by) {
  const list = document.querySelector("main [role=grid]");
  if (list) {
    list.focus();
    return;
  }
  const links = [...document.querySelectorAll("main tbody th a")];
  const at = links.findIndex((each) => each.closest("tr").contains(document.activeElement));
  links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
}

/** What a key does outside of fields and dialogs. */
function keyAction(key, showHelp) {
  const click = (selector, within = document) => within?.querySelector(selector)?.click();
  return {
    "/": () => document.querySelector("[data-filter]")?.focus(),
    "?": showHelp,
    j: () => step(1),
    k: () => step(-1),
    x: () => click("input[type=checkbox]", document.activeElement.closest("tr")),
    e: () => click("[data-key=e]"),
  }[key];
}

const isTyping = (element) => element.closest?.("input:not([type=checkbox]), textarea, select, dialog");

function useKeys(showHelp) {
  const wasG = useRef(false);
  useEffect(() => {
    const press = (event) => {
      if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
      const page = wasG.current && PAGES.find(([, , key]) => key === event.key);
      wasG.current = event.key === "g";
      const act = page ? () => { location.hash = `#/${page[0]}`; } : keyAction(event.key, showHelp);
      if (act && !event.defaultPrevented) {
        event.preventDefault();
        act();
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

function Live() {
  const { status, since } = useStatus();
  const text = { live: "live", connecting: "connecting", stale: `stale since ${moment(since)}` }[status];
  return html`<span class=${`live ${status}`} role="status">${text}</span>`;
}

function Page({ me, place }) {
  const { page, rest } = place;
  const main = useRef(null);
  const key = `${page}/${rest.join("/")}`;
  useEffect(() => {
    const heading = main.current.querySelector("h1")?.textContent;
    document.title = heading ? `${heading} – ${me.computer}` : "Tiercel";
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone it is one row
    main.current.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [key]);
  let content = html`<h1>No such page</h1><p><a href="#/">Overview</a></p>`;
  const known = PAGES.find(([name]) => name === page);
  if (page === "" && !mayRead(me) && me.roles.includes("send")) content = html`<${SendPage} key="send" me=${me} />`; // all that it may do
  else if (!me.roles.includes(roleOf(page))) content = html`<${Refused} key=${key} me=${me} role=${roleOf(page)} title=${known?.[1] ?? rest[0] ?? "Tiercel"} />`;
  else if (page === "queue" && rest.length === 1) content = html`<${QueuePage} key=${key} me=${me} name=${rest[0]} />`;
  else if (page === "queue" && rest.length === 2) content = html`<${MessagePage} key=${key} me=${me} name=${rest[0]} id=${rest[1]} />`;
  else if (page === "edit" && rest.length === 2) content = html`<${EditPage} key=${key} me=${me} name=${rest[0]} id=${rest[1]} />`;
  else if (known && rest.length <= (page === "why" ? 1 : 0)) content = html`<${known[3]} key=${key} me=${me} rest=${rest} />`;
  return html`<main id="main" ref=${main} tabindex="-1"><${Notice} />${content}</main>`;
}

function App() {
  const [me, setMe] = useState(null);
  const [error, setError] = useState(null);
  const [needsLogin, setNeedsLogin] = useState(false);
  const [hasHelp, setHelp] = useState(false);
  const place = usePlace();
  const ask = async () => {
    try {
      const who = await get("/me");
      setMe(who);
      setNeedsLogin(false);
      setError(null);
      if (mayRead(who)) connect();
    } catch (problem) {
      if (problem.status === 401) setNeedsLogin(true);
      else setError(problem);
    }
  };
  useEffect(() => {
    session.ended = () => {
      disconnect();
      setMe(null);
      setNeedsLogin(true);
    };
    ask();
  }, []);
  useKeys(() => setHelp(true));
  if (needsLogin) return html`<${Login} onDone=${ask} />`;
  if (!me) return html`<main id="main"><h1>Tiercel</h1>${error ? html`<${Failure} error=${error} /><p><button type="button" onClick=${ask}>Try again</button></p>` : html`<p class="loading">Loading</p>`}</main>`;
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to content</a>
    <header>
      <a class="brand" href="#/">Tiercel</a>
      <nav aria-label="Pages">${PAGES.filter(([name]) => me.roles.includes(roleOf(name))).map(([name, title]) => html`<a href=${`#/${name}`} aria-current=${place.page === name || (name === "send" && !mayRead(me) && place.page === "") ? "page" : undefined}>${title}</a>`)}</nav>
      <p class="who">${mayRead(me) && html`<${Live} />`}<span title=${`${me.name} on ${me.computer}`}>${me.logged_in ? `${me.name} on ` : ""}${me.computer}</span>
        <button type="button" class="plain" onClick=${() => setHelp(true)} aria-label="Keyboard shortcuts">?</button>
        ${me.logged_in && html`<button type="button" class="plain" onClick=${async () => { await logOut(); session.ended(); }}>Log out</button>`}</p>
    </header>
    <${Page} me=${me} place=${place} />
    ${hasHelp && html`<${Dialog} title="Keyboard" onClose=${() => setHelp(false)}><dl class="pairs">${keysOf(me).map(([key, text]) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`)}</dl>
      <p class="actions"><button type="button" autofocus onClick=${() => setHelp(false)}>Close</button></p><//>`}`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
