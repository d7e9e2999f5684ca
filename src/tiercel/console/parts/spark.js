// Small charts, drawn as SVG with attributes only.
import { html } from "./html.js";
import { number } from "./format.js";

const points = (values, width, height, top) => {
  const step = width / Math.max(values.length - 1, 1);
  return values.map((value, at) => `${(at * step).toFixed(1)},${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`).join(" ");
};

export function Spark({ values, label }) {
  if (!values || values.length < 2) return html`<span class="quiet" aria-hidden="true">–</span>`;
  const top = Math.max(...values, 1);
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img"
    aria-label=${`${label}: from ${number(values[0])} to ${number(values.at(-1))}, at most ${number(top)}`}>
    <polyline points=${points(values, 100, 24, top)} /></svg>`;
}

export function Chart({ title, series }) {
  const top = Math.max(1, ...series.flatMap((each) => each.values));
  if (!series.length || series[0].values.length < 2) {
    return html`<figure class="chart"><figcaption>${title}</figcaption><p class="quiet">No samples yet.</p></figure>`;
  }
  const said = series.map((each) => `${each.name} now ${number(Math.round(each.values.at(-1)))}`).join(", ");
  return html`<figure class="chart">
    <figcaption>${title}: at most ${number(Math.ceil(top))}</figcaption>
    <svg viewBox="0 0 300 60" preserveAspectRatio="none" role="img" aria-label=${`${title}: ${said}`}>
      ${series.map((each, at) => html`<polyline class=${`line${at}`} points=${points(each.values, 300, 60, top)} />`)}
    </svg>
    <p class="legend">${series.map((each, at) => html`<span class=${`key${at}`}>${each.name} ${number(Math.round(each.values.at(-1)))}</span>`)}</p>
  </figure>`;
}
