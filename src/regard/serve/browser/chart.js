/* Series with what comes next: one chart a column, its past in grey, the forecast and its bounds in colour. */
const PAST = [30, 240], CHARTS = 6;  // rows of the past: six for each that is forecast, at least and at most
function charts(record, context) {
  const columns = columnsOf(record), names = Object.keys(columns), table = context.table || { names: [], rows: [] };
  const made = names.map((name) => chart(name, columns[name], pastOf(table, name, columns[name].mid.length), record.times));
  const shown = [...made.slice(0, CHARTS)];
  if (made.length > CHARTS) shown.push(make("details", {}, make("summary", { textContent: `${made.length - CHARTS} more` }), ...made.slice(CHARTS)));
  return [...shown, numbers(record)];
}

/* {column: {low, mid, high}} of a forecast whose columns carry their quantile, as "close 0.1". */
function columnsOf(record) {
  const quantiles = record.quantiles || [], found = {};
  if (!quantiles.length) return Object.fromEntries(Object.entries(record.forecast).map(([name, values]) => [name, { mid: values }]));
  const middle = quantiles.reduce((best, q) => Math.abs(q - 0.5) < Math.abs(best - 0.5) ? q : best);
  for (const [name, values] of Object.entries(record.forecast)) {
    const at = name.lastIndexOf(" "), own = found[name.slice(0, at)] ??= {}, q = Number(name.slice(at + 1));
    if (q === middle) own.mid = values;
    else if (q === Math.min(...quantiles)) own.low = values;
    else if (q === Math.max(...quantiles)) own.high = values;
  }
  return found;
}
function pastOf(table, name, horizon) {
  const at = table.names.indexOf(name);
  if (at < 0) return [];
  const n = Math.min(PAST[1], Math.max(PAST[0], 6 * horizon));
  return table.rows.slice(-n).map((row) => row[at] === undefined || row[at].trim() === "" ? NaN : Number(row[at]));
}

function chart(name, { low, mid, high }, past, times) {
  const box = make("div", { className: "chart" }), told = make("figcaption", {}, make("b", { textContent: name, dir: "auto" }), make("span", { className: "key" }, make("i", { className: "was" }), "past", make("i", { className: "comes" }), "forecast", ...(low ? [make("i", { className: "between" }), "bounds"] : [])));
  const drawn = () => box.replaceChildren(drawing(box.clientWidth || 640, name, { low, mid, high }, past, times));
  new ResizeObserver(drawn).observe(box);
  return make("figure", {}, told, box);
}

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, facts = {}, ...inside) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(facts)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}
function drawing(width, name, { low, mid, high }, past, times) {
  const height = 220, left = 52, right = 12, top = 10, bottom = 26, n = past.length + mid.length;
  const values = [...past, ...mid, ...(low || []), ...(high || [])].filter(Number.isFinite);
  const ticks = niceTicks(Math.min(...values), Math.max(...values)), [least, most] = [ticks[0], ticks.at(-1)];
  const x = (i) => left + (n > 1 ? i / (n - 1) : 0.5) * (width - left - right), y = (v) => top + (1 - (v - least) / (most - least)) * (height - top - bottom);
  const path = (points) => points.map(([i, v], at) => `${at && Number.isFinite(points[at - 1][1]) ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).filter((_, at) => Number.isFinite(points[at][1])).join("");
  const from = past.length, last = past.at(-1), joined = from && Number.isFinite(last) ? [[from - 1, last]] : [];
  const coming = (row) => [...joined, ...row.map((v, i) => [from + i, v])];
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${name}: forecast of ${mid.length} steps, from ${figure(mid[0])} to ${figure(mid.at(-1))}` });
  for (const tick of ticks) picture.append(svg("line", { class: "rule", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }), svg("text", { class: "tick", x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, figure(tick)));
  if (low && high) picture.append(svg("path", { class: "band", d: `${path(coming(high))}L${path(coming(low).reverse()).slice(1)}Z` }));
  if (from) picture.append(svg("path", { class: "past", d: path(past.map((v, i) => [i, v])) }), svg("line", { class: "here", x1: x(from - 1), x2: x(from - 1), y1: top, y2: height - bottom }));
  picture.append(svg("path", { class: "next", d: path(coming(mid)) }));
  if (mid.length < 2) picture.append(svg("circle", { class: "dot", cx: x(from), cy: y(mid[0]), r: 3.5 }));
  const label = (i, text, anchor) => svg("text", { class: "tick", x: x(i), y: height - 7, "text-anchor": anchor }, text);
  if (times?.length) picture.append(label(n - 1, String(times.at(-1)), "end"));
  if (from > 1) picture.append(label(0, `${from} rows back`, "start"));
  return picture;
}
function niceTicks(least, most) {
  if (least === most) { least -= 1; most += 1; }
  const rough = (most - least) / 4, unit = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 2.5, 5, 10].map((m) => m * unit).find((s) => s >= rough);
  const first = Math.floor(least / step), count = Math.ceil(most / step) - first;
  return Array.from({ length: count + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function numbers(record) {
  const names = Object.keys(record.forecast), head = make("tr", {}, make("th", { textContent: "step", scope: "col" }), ...names.map((name) => make("th", { textContent: name, scope: "col" })));
  const n = record.forecast[names[0]].length;
  const rows = Array.from({ length: n }, (_, i) => make("tr", {}, make("th", { textContent: record.times?.[i] ?? String(i + 1), scope: "row" }), ...names.map((name) => make("td", { textContent: figure(record.forecast[name][i]) }))));
  return make("details", {}, make("summary", { textContent: "The numbers" }), make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "The forecast as numbers" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))));
}

/* A table of text, also a compressed one: its names, and its rows as texts. */
async function tableOf(file) {
  const stream = /\.gz$/i.test(file.name) ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
  const text = (await new Response(stream).text()).replace(/^\ufeff/, "");
  const first = text.slice(0, text.search(/[\r\n]|$/)), mark = ["\t", ";", ","].find((one) => first.includes(one)) || ",";
  const [names, ...rows] = text.split(/\r\n|\r|\n/).filter((line) => line.trim()).map((line) => cells(line, mark));
  return { names: names || [], rows };
}
function cells(line, mark) {
  if (!line.includes('"')) return line.split(mark);
  const found = [""];
  for (let i = 0, quoted = false; i < line.length; i++) {
    if (line[i] === '"' && quoted && line[i + 1] === '"') found[found.length - 1] += line[i++];
    else if (line[i] === '"') quoted = !quoted;
    else if (line[i] === mark && !quoted) found.push("");
    else found[found.length - 1] += line[i];
  }
  return found;
}
