// Numbers, sizes and times as people read them.
const numbers = new Intl.NumberFormat("en");

export const number = (value) => (value === null || value === undefined ? "" : numbers.format(value));
export const rate = (value) => (!value ? "0" : value < 10 ? value.toFixed(1) : numbers.format(Math.round(value)));

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let unit = -1;
  while (bytes >= 1024 && unit < units.length - 1) [bytes, unit] = [bytes / 1024, unit + 1];
  return `${bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "";
  value = Math.max(0, Math.round(value));
  if (value < 60) return `${value} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min`;
  if (value < 86400) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  return `${Math.floor(value / 86400)} d ${Math.floor((value % 86400) / 3600)} h`;
}

export const age = (time) => (time ? seconds((Date.now() - Date.parse(time)) / 1000) : "");

const pad = (value) => String(value).padStart(2, "0");

export function moment(time) {
  if (!time) return "";
  const date = new Date(time);
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** A destination or path name as people type it: private queues of this computer by their short name. */
export const shortName = (name) => (name || "").replace(/^[^\\=]+\\private\$\\/i, "")
  .replace(/^DIRECT=OS:(\.|[^\\]+)\\private\$\\/i, (whole, host) => (host === "." ? "" : `${host}: `));

export const queueLink = (name) => `#/queue/${encodeURIComponent(name)}`;
