// One EventSource for all pages; if it fails, pages poll.
import { useEffect, useState } from "../vendor/hooks.js";

const listeners = new Set();
const state = { source: null, status: "connecting", since: Date.now() };

function tell(kind, data) {
  for (const each of listeners) each(kind, data);
}

function become(status) {
  if (state.status === status) return;
  state.status = status;
  state.since = Date.now();
  tell("status", status);
}

export function connect() {
  disconnect();
  const source = (state.source = new EventSource("/api/v1/events"));
  source.onopen = () => become("live");
  source.onerror = () => become("stale");
  for (const kind of ["queues", "outgoing"]) {
    source.addEventListener(kind, (event) => tell(kind, JSON.parse(event.data)));
  }
}

export function disconnect() {
  if (state.source) state.source.close();
  state.source = null;
  become("connecting");
}

/** Calls back with each event: (kind, data). */
export function useEvents(callback, deps = []) {
  useEffect(() => {
    listeners.add(callback);
    return () => listeners.delete(callback);
  }, deps);
}

/** "live", "connecting" or "stale", and since when. */
export function useStatus() {
  const [status, set] = useState(state.status);
  useEffect(() => set(state.status), []);
  useEvents((kind, data) => kind === "status" && set(data));
  return { status, since: state.since };
}
