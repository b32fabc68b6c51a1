"use strict";
(() => {
const R = JSON.parse(document.getElementById("record").textContent);
const $ = (id) => document.getElementById(id);
const make = (tag, set = {}, ...inside) => { const e = Object.assign(document.createElement(tag), set); e.append(...inside); return e; };
const VIEWS = [["scene", R.scene ? R.scene.name : ""], ["lines", "Lines"], ["matrix", "Matrix"], ["heads", "All heads"], ["pair", "One pair"], ["output", "Output"]];
const KINDS = { self: "Self", masked: "Own past", cross: "Cross", pool: "Pooling", kernel: "Kernel" };
const state = { view: R.scene ? "scene" : "lines", through: false, map: 0, layer: 0, head: -1, row: null, column: null, pinned: false };
const map = () => R.maps[state.map];
const rowsOf = (m) => R.axes[m.rows], columnsOf = (m) => R.axes[m.columns];

/* ---- numbers: kept as ten-thousandths, deflated, one piece a head, opened when it is looked at ---- */
const opened = new Map();
const loaded = new Promise((done) => document.readyState === "loading" ? addEventListener("DOMContentLoaded", done) : done());
async function bytes(id) {
  if (!$(id)) await loaded;
  const text = atob($(id).textContent), raw = new Uint8Array(text.length);
  for (let i = 0; i < raw.length; i++) raw[i] = text.charCodeAt(i);
  if (!window.DecompressionStream) { $("read").textContent = "This page needs a newer browser (from 2023 on)."; throw new Error("no DecompressionStream"); }
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
function keep(id, promise) {
  opened.set(id, promise);
  if (opened.size > 200) opened.delete(opened.keys().next().value);
  return promise;
}
function head(m, layer, number) {
  const id = `w${m}.${layer}.${number}`;
  if (opened.has(id)) return opened.get(id);
  return keep(id, (number < 0 ? mean(m, layer) : one(id)));
}
async function one(id) {
  const planes = await bytes(id), n = planes.length / 2, found = new Float32Array(n);
  for (let i = 0; i < n; i++) found[i] = ((planes[i] << 8) | planes[n + i]) / 10000;
  return found;
}
async function mean(m, layer) {
  const all = await Promise.all(R.maps[m].heads.map((_, h) => head(m, layer, h)));
  const found = new Float32Array(all[0].length);
  for (const w of all) for (let i = 0; i < found.length; i++) found[i] += w[i] / all.length;
  return found;
}
async function vectors(m, layer, number) {
  const id = `q${m}.${layer}.${number}`;
  if (opened.has(id)) return opened.get(id);
  const spec = R.maps[m].computed, E = spec.width, T = rowsOf(R.maps[m]).shown.length;
  return keep(id, bytes(id).then((raw) => {
    const whole = new Int16Array(raw.buffer), [q, k] = spec.range[layer][number];
    const scaled = (part, most) => Float32Array.from(part, (v) => (v / 32767) * most);
    return { q: scaled(whole.subarray(0, T * E), q), k: scaled(whole.subarray(T * E), k) };
  }));
}
const shown = (w) => w.toFixed(state.head < 0 && map().heads.length > 1 ? 3 : 4);

/* ---- colour: one hue, even steps of lightness; full colour from `most` on, half of it at a quarter ---- */
let table = [], packed = new Uint32Array(256), named = {};
const theme = () => document.documentElement.dataset.theme;
function paint() {
  named = {};
  const stops = R.shades[theme()].map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  table = Array.from({ length: 256 }, (_, i) => {
    const x = (i / 255) * (stops.length - 1), a = Math.min(stops.length - 2, Math.floor(x)), t = x - a;
    return stops[a].map((v, c) => Math.round(v + (stops[a + 1][c] - v) * t));
  });
  packed = new Uint32Array(bar((i) => table[i]).data.slice().buffer);  // a whole pixel at a time
}
function bar(colours) {
  const context = $("bar").getContext("2d"), strip = context.createImageData(256, 1);
  for (let i = 0; i < 256; i++) strip.data.set([...colours(i), 255], 4 * i);
  context.putImageData(strip, 0, 0);
  return strip;
}
const level = (w, most) => Math.min(255, Math.round(255 * Math.sqrt(Math.max(0, w) / most)));
const colour = (v) => `rgb(${table[v].join(",")})`;
const css = (name) => named[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function fitted(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 16000 / Math.max(width, height));
  canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

/* ---- what is shown, and the way there ---- */
let ticket = 0, current = null;
async function show() {
  const mine = ++ticket;
  document.documentElement.dataset.ready = "no";
  if (!available().some(([name]) => name === state.view)) state.view = available()[0][0];
  if (state.view === "pair" && state.head < 0) state.head = 0;
  if (state.view !== "scene") state.through = false;
  rail();
  for (const [name] of VIEWS) $(`view-${name}`).hidden = name !== state.view;
  current = await head(state.map, state.layer, state.head);
  if (mine !== ticket) return;
  await DRAW[state.view]();
  if (mine !== ticket) return;
  if (!performance.getEntriesByName("drawn").length) performance.mark("drawn");
  document.documentElement.dataset.ready = "yes";
}
function go(change) {
  if ("layer" in change || "head" in change) state.through = false;
  Object.assign(state, change);
  show();
}
function goView(view) { if (available().some(([name]) => name === view)) go({ view }); }
function goMap(index) {
  const m = R.maps[index];
  Object.assign(state, { map: index, layer: m.start[0], head: m.start[1], row: null, column: null, pinned: false });
  state.through = state.view === "scene" && rolls(m);
  show();
}
function move(byLayer, byHead) {
  const m = map(), lowest = m.heads.length > 1 && state.view !== "pair" ? -1 : 0;
  const layer = Math.max(0, Math.min(m.layers.length - 1, state.layer + byLayer));
  const number = Math.max(lowest, Math.min(m.heads.length - 1, state.head + byHead));
  if (layer !== state.layer || number !== state.head) go({ layer, head: number });
}
const rolls = (m) => Boolean(scene && R.scene.rollout && m.kind === R.scene.kinds[0]);
const fits = {
  scene: () => R.scene && R.scene.kinds.includes(map().kind),
  lines: () => !scene || rowsOf(map()).kind === "tokens" && columnsOf(map()).kind === "tokens",
  heads: () => map().layers.length * map().heads.length > 1,
  pair: () => !scene || map().computed,
  output: () => R.outputs,
};
const available = () => VIEWS.filter(([name]) => !fits[name] || fits[name]());
function tabs() {
  const views = available(), names = views.map(([name]) => name).join();
  $("keys-last").textContent = views.length;
  if ($("tabs").dataset.names !== names) {
    $("tabs").dataset.names = names;
    $("tabs").replaceChildren(...views.map(([view, name]) => {
      const tab = make("button", { type: "button", textContent: name, onclick: () => goView(view) });
      tab.setAttribute("role", "tab"); tab.setAttribute("aria-controls", `view-${view}`); tab.dataset.view = view;
      return tab;
    }));
  }
  [...$("tabs").children].forEach((b) => { const on = b.dataset.view === state.view; b.setAttribute("aria-selected", on); b.tabIndex = on ? 0 : -1; });
}
function legend(most) {
  if (state.view === "heads" && scene && scene.small) { $("most").textContent = "each head’s largest"; bar((i) => scene.bar(i / 255)); }
  else if (state.view === "scene") { $("most").textContent = most.toPrecision(2); bar((i) => (scene.bar ? scene.bar(i / 255) : table[i])); }
  else { $("most").textContent = most < 1 ? `${most.toPrecision(2)} and more` : "1"; bar((i) => table[i]); }
  (state.view === "scene" ? $("scale-here") : $("scale-home")).append($("scale"));
  $("scale").setAttribute("role", "img");
  $("scale").setAttribute("aria-label", `Colour scale: from 0 to ${$("most").textContent}`);
}

function rail() {
  const m = map(), where = `${m.layers.length > 1 ? `Layer ${m.layers[state.layer]}` : ""}`;
  const which = m.heads.length > 1 ? (state.head < 0 ? "mean of its heads" : `head ${m.heads[state.head]}`) : "";
  $("where").textContent = state.through ? "Through all layers" : [where, which].filter(Boolean).join(", ");
  $("summary").textContent = state.through ? "What each place holds of the others in the end: the heads’ means of all layers, one after the other." : told(m, state.layer, state.head);
  $("through").hidden = state.view !== "scene" || !rolls(m);
  $("through").setAttribute("aria-pressed", state.through);
  $("meaning").textContent = m.meaning;
  $("how").textContent = state.view === "scene" ? scene.how() : state.view === "heads" && scene && scene.small ? scene.howSmall : HOW[state.view];
  if (state.view !== "scene") legend(m.most);
  $("scale").hidden = state.view === "pair" || state.view === "output";
  [...$("kinds").children].forEach((b, i) => { b.setAttribute("aria-checked", i === state.map); b.tabIndex = i === state.map ? 0 : -1; });
  tabs();
  grid(m);
}
function told(m, layer, number) {
  const s = number < 0 ? null : m.summary[layer][number];
  if (!s) return "";
  const parts = [`Entropy ${s.entropy.toFixed(2)} of at most ${s.ceiling.toFixed(2)} nats`];
  if (s.distance !== null) parts.push(`looks ${s.distance.toFixed(1)} places away on average`);
  if (s.marks !== null) parts.push(`${Math.round(100 * s.marks)}\u00a0% rests on marks`);
  return parts.join("; ") + ".";
}
let gridOf = "";
function grid(m) {
  const L = m.layers.length, H = m.heads.length, means = H > 1;
  $("grid-box").hidden = $("keys-heads").hidden = L * H === 1;
  const id = `${state.map} ${theme()}`;
  if (gridOf !== id) {
    gridOf = id;
    const size = Math.max(10, Math.min(18, Math.floor((226 - 16) / (H + 1)) - 2));
    $("grid").style.gridTemplateColumns = `14px repeat(${H + (means ? 1 : 0)}, ${size}px)`;
    $("grid").style.gridAutoRows = `${size}px`;
    const cells = [make("span")];
    if (means) cells.push(make("span", { textContent: "ø", title: "mean of the heads" }));
    m.heads.forEach((h, i) => cells.push(make("span", { textContent: H <= 12 || i % 2 === 0 ? h : "" })));
    m.layers.forEach((layer, l) => {
      cells.push(make("span", { textContent: layer }));
      for (let h = means ? -1 : 0; h < H; h++) {
        const focus = h < 0 ? m.summary[l].reduce((a, s) => a + s.focus, 0) / H : m.summary[l][h].focus;
        const cell = make("div", { className: h < 0 ? "cell mean" : "cell", id: `g${l}.${h}` });
        cell.setAttribute("role", "option");
        cell.setAttribute("aria-label", `layer ${layer}, ${h < 0 ? "mean of heads" : `head ${m.heads[h]}`}`);
        cell.style.background = colour(Math.round(30 + 225 * focus));
        cell.title = cell.getAttribute("aria-label");
        cell.onclick = () => go({ layer: l, head: h });
        cells.push(cell);
      }
    });
    $("grid").replaceChildren(...cells);
  }
  for (const cell of $("grid").querySelectorAll("[aria-selected=true]")) cell.setAttribute("aria-selected", "false");
  const here = state.through ? null : $(`g${state.layer}.${state.head}`);
  if (here) { here.setAttribute("aria-selected", "true"); $("grid").setAttribute("aria-activedescendant", here.id); }
}

/* ---- lines between tokens ---- */
let sidesOf = "";
function lines() {
  const m = map(), T = rowsOf(m).shown.length, S = columnsOf(m).shown.length, longest = Math.max(T, S);
  const row = longest <= 40 ? 27 : longest <= 96 ? 22 : 18;
  $("lines").style.setProperty("--row", `${row}px`);
  $("lines").style.setProperty("--type", `${row > 24 ? 18 : row > 20 ? 16 : 14}px`);
  if (sidesOf !== `${state.map}`) {
    sidesOf = `${state.map}`;
    $("asks-name").textContent = m.names[0] + (m.rows === m.columns ? ", looking" : "");
    $("seen-name").textContent = m.names[1] + (m.rows === m.columns ? ", looked at" : "");
    for (const [id, axis, key] of [["asks", rowsOf(m), "row"], ["seen", columnsOf(m), "column"]]) {
      $(id).replaceChildren(...axis.shown.map((text, i) => {
        const item = make("li", { title: text }, make("span", { textContent: text }));
        item.setAttribute("role", "option");
        item.dataset.i = i; item.dataset.key = key;
        if (axis.marks.includes(i)) item.dataset.mark = "yes";
        return item;
      }));
      $(id).setAttribute("aria-label", `${m.names[key === "row" ? 0 : 1]}, ${key === "row" ? "looking" : "looked at"}`);
    }
    const few = Math.min(T, S) * 3 < longest && longest * row < 900;
    $("asks").style.marginTop = few && T < S ? `${((S - T) * row) / 2}px` : "";
    $("seen").style.marginTop = few && S < T ? `${((T - S) * row) / 2}px` : "";
  }
  strings();
}
function strings() {
  if (state.view !== "lines") return;
  const m = map(), asks = [...$("asks").children], seen = [...$("seen").children], S = seen.length;
  const { row, column } = state, box = $("lines").getBoundingClientRect(), context = fitted($("strings"), box.width, box.height);
  const left = $("asks").getBoundingClientRect(), right = $("seen").getBoundingClientRect();
  const x0 = left.right - box.left + 3, x1 = right.left - box.left - 3, step = asks[0].getBoundingClientRect().height;
  const y = (list, i) => list.top - box.top + (i + 0.5) * step;
  context.strokeStyle = css("--accent");
  const draw = (i, j, w, full) => {
    const strength = Math.min(1, Math.sqrt(w / m.most));
    if (strength < (full ? 0.04 : 0.2)) return;
    context.globalAlpha = full ? 0.1 + 0.9 * strength : 0.55 * strength * strength;
    context.lineWidth = full ? 0.6 + 2.6 * strength : 0.5 + 1.2 * strength;
    const a = y(left, i), b = y(right, j), bend = (x1 - x0) * 0.42;
    context.beginPath(); context.moveTo(x0, a); context.bezierCurveTo(x0 + bend, a, x1 - bend, b, x1, b); context.stroke();
  };
  const chosen = row !== null ? "row" : column !== null ? "column" : "";
  if (chosen === "row") for (let j = 0; j < S; j++) draw(row, j, current[row * S + j], true);
  else if (chosen === "column") for (let i = 0; i < asks.length; i++) draw(i, column, current[i * S + column], true);
  else strongest(1500).forEach(([i, j, w]) => draw(i, j, w, false));
  const tint = (items, weight) => items.forEach((item, i) => {
    const v = weight ? level(weight(i), m.most) : 0, on = v > 8 ? `${v} ${theme()}` : "";
    if ((item.dataset.tint || "") === on) return;
    item.dataset.tint = on;
    item.style.background = on ? colour(v) : "";
    item.style.color = on ? (v > 140 ? css("--on-accent") : css("--ink")) : "";
  });
  tint(seen, chosen === "row" ? (j) => current[row * S + j] : null);
  tint(asks, chosen === "column" ? (i) => current[i * S + column] : null);
  for (const [list, at] of [["asks", row], ["seen", column]]) {
    for (const item of $(list).querySelectorAll("[aria-selected=true]")) item.removeAttribute("aria-selected");
    if (at !== null) $(list).children[at].setAttribute("aria-selected", "true");
  }
  values(chosen);
}
function strongest(n) {
  const m = map(), S = columnsOf(m).shown.length, floor = 0.04 * m.most, found = [];
  for (let i = 0; i < current.length; i++) if (current[i] >= floor) found.push(i);
  if (found.length > n) { found.sort((a, b) => current[b] - current[a]); found.length = n; }
  return found.map((i) => [Math.floor(i / S), i % S, current[i]]);
}
function values(chosen) {
  const m = map(), T = rowsOf(m).shown.length, S = columnsOf(m).shown.length;
  if (!chosen) {
    $("values").replaceChildren(make("p", { className: "head", textContent: "Point at a word for its weights, click to hold it. With the keyboard: Tab to a column, then ↑ ↓." }));
    return;
  }
  const [axis, other, at] = chosen === "row" ? [rowsOf(m), columnsOf(m), state.row] : [columnsOf(m), rowsOf(m), state.column];
  const list = other.shown.map((text, i) => [text, chosen === "row" ? current[at * S + i] : current[i * S + at], i]);
  list.sort((a, b) => b[1] - a[1]);
  const top = list.slice(0, 12).filter(([, w], i) => w >= 0.00005 || i === 0), most = Math.max(top[0][1], 1e-6);
  const sum = list.reduce((a, [, w]) => a + w, 0), rest = sum - top.reduce((a, [, w]) => a + w, 0);
  const title = make("p", { className: "head" }, make("b", {}, axis.shown[at], make("sub", { textContent: at })), chosen === "row" ? "looks at" : "is looked at by");
  const items = top.map(([text, w, i]) => {
    const bar = make("i"); bar.style.width = `${(100 * w) / most}%`;
    return make("li", {}, make("span", { title: text }, text, make("sub", { textContent: i })), bar, make("em", { textContent: shown(w) }));
  });
  const others = list.length - top.length;
  const foot = others > 0 ? `${others} others share ${shown(Math.max(0, rest))}.` : "";
  $("values").replaceChildren(title, make("ol", {}, ...items), make("p", { className: "rest", textContent: foot }));
}
function point(event) {
  const item = event.target.closest("li[data-i]");
  if (!item || state.pinned) return;
  state.row = state.column = null;
  state[item.dataset.key] = +item.dataset.i;
  strings();
}
function letGo() { Object.assign(state, { row: null, column: null, pinned: false }); if (state.view === "scene") show(); else if (state.view === "lines") strings(); else if (state.view === "matrix") plot(); }
function walk(event) {
  const key = event.currentTarget.id === "asks" ? "row" : "column", n = event.currentTarget.children.length;
  const at = state[key] === null ? -1 : state[key];
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1, PageDown: at + 10, PageUp: at - 10 }[event.key];
  if (next === undefined) return;
  event.preventDefault(); event.stopPropagation();
  state.row = state.column = null; state.pinned = true;
  state[key] = Math.max(0, Math.min(n - 1, next));
  strings();
  event.currentTarget.children[state[key]].scrollIntoView({ block: "nearest" });
}

/* ---- matrix ---- */
const sight = { x: 0, y: 0, cell: 0, of: "", at: null };
let picture = null;
function matrix() {
  const m = map(), T = rowsOf(m).shown.length, S = columnsOf(m).shown.length;
  picture = new OffscreenCanvas(S, T);
  const context = picture.getContext("2d"), image = context.createImageData(S, T);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < current.length; i++) pixels[i] = packed[level(current[i], m.most)];
  context.putImageData(image, 0, 0);
  if (sight.of !== `${state.map}`) { sight.of = `${state.map}`; fit(); } else plot();
}
function room() {
  const measure = $("matrix").getContext("2d");
  const m = map(), width = $("view-matrix").clientWidth;
  measure.font = font(15);
  const widest = (axis) => Math.min(130, axis.shown.reduce((a, t) => Math.max(a, measure.measureText(clip(t)).width), 0)) + 12;
  const left = widest(rowsOf(m)), top = widest(columnsOf(m)) * 0.82 + 8;
  const above = $("view-matrix").getBoundingClientRect().top + scrollY;
  const roomy = Math.min(innerHeight - above - 70, 960);
  const limit = Math.max(340, roomy < 13 * rowsOf(m).shown.length + top ? innerHeight - 110 : roomy);
  return { left, top, right: 0.45 * top, width, limit };
}
const font = (size) => `${size}px ${css("--serif")}`;
const clip = (text) => (text.length > 18 ? `${text.slice(0, 17)}…` : text);
function fit() {
  const m = map(), T = rowsOf(m).shown.length, S = columnsOf(m).shown.length, r = room();
  sight.cell = Math.min(46, (r.width - r.left - r.right) / S, (r.limit - r.top) / T);
  sight.x = sight.y = 0;
  plot();
}
function frame() {
  const m = map(), T = rowsOf(m).shown.length, S = columnsOf(m).shown.length, r = room();
  const w = Math.min(r.width - r.left - r.right, S * sight.cell), h = Math.min(r.limit - r.top, T * sight.cell);
  return { ...r, T, S, w, h };
}
function plot() {
  if (state.view !== "matrix" || !picture) return;
  const f = frame(), c = sight.cell;
  sight.x = Math.max(0, Math.min(f.S - f.w / c, sight.x)); sight.y = Math.max(0, Math.min(f.T - f.h / c, sight.y));
  const context = fitted($("matrix"), f.width, f.top + f.h + 2);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, sight.x, sight.y, f.w / c, f.h / c, f.left, f.top, f.w, f.h);
  context.strokeStyle = css("--rule"); context.lineWidth = 1;
  if (c >= 9) {
    context.beginPath();
    for (let j = Math.ceil(sight.x); j <= sight.x + f.w / c; j++) { const x = f.left + (j - sight.x) * c; context.moveTo(x, f.top); context.lineTo(x, f.top + f.h); }
    for (let i = Math.ceil(sight.y); i <= sight.y + f.h / c; i++) { const y = f.top + (i - sight.y) * c; context.moveTo(f.left, y); context.lineTo(f.left + f.w, y); }
    context.stroke();
  } else context.strokeRect(f.left + 0.5, f.top + 0.5, f.w - 1, f.h - 1);
  labels(context, f);
  if (sight.at) {
    const [i, j] = sight.at, x = f.left + (j - sight.x) * c, y = f.top + (i - sight.y) * c;
    context.save(); context.beginPath(); context.rect(f.left, f.top, f.w, f.h); context.clip();
    context.strokeStyle = css("--ink"); context.globalAlpha = 0.25;
    context.strokeRect(f.left, y, f.w, c); context.strokeRect(x, f.top, c, f.h);
    context.globalAlpha = 1; context.lineWidth = 1.5; context.strokeRect(x, y, c, c); context.restore();
  }
  const m = map();
  $("matrix").setAttribute("aria-label", `${m.meaning} ${$("where").textContent}, ${f.T} rows and ${f.S} columns.`);
}
function labels(context, f) {
  const m = map(), c = sight.cell, size = Math.max(12, Math.min(16, c * 0.8)), every = c >= size - 0.5 ? 1 : Math.ceil((size + 4) / c);
  const at = sight.at || [-1, -1], ink = css("--ink"), accent = css("--accent"), quiet = css("--quiet");
  context.font = font(size); context.textBaseline = "middle";
  const side = (axis, from, count, mine, put) => {
    for (let i = Math.floor(from); i < Math.min(axis.shown.length, from + count); i++) {
      const center = i + 0.5 - from;
      if (center < 0 || center > count) continue;
      const near = mine >= 0 && i !== mine && Math.abs(i - mine) < every;  // the one pointed at keeps room around it
      if (i !== mine && (i % every || near)) continue;
      context.fillStyle = i === mine ? accent : axis.marks.includes(i) ? quiet : ink;
      put(clip(axis.shown[i]), center * c);
    }
  };
  context.textAlign = "right";
  side(rowsOf(m), sight.y, f.h / c, at[0], (text, y) => context.fillText(text, f.left - 7, f.top + y, f.left - 9));
  context.textAlign = "left";
  side(columnsOf(m), sight.x, f.w / c, at[1], (text, x) => {
    context.save(); context.translate(f.left + x + 2, f.top - 6); context.rotate(-Math.PI / 3.2); context.fillText(text, 0, 0); context.restore();
  });
}
function cellAt(event) {
  const f = frame(), box = $("matrix").getBoundingClientRect(), x = event.clientX - box.left - f.left, y = event.clientY - box.top - f.top;
  if (x < 0 || y < 0 || x >= f.w || y >= f.h) return null;
  return [Math.floor(sight.y + y / sight.cell), Math.floor(sight.x + x / sight.cell)];
}
function zoom(by, px, py) {
  const f = frame(), least = Math.min((f.width - f.left - f.right) / f.S, (f.limit - f.top) / f.T, 46);
  const x = px === undefined ? f.w / 2 : px - f.left, y = py === undefined ? f.h / 2 : py - f.top;
  const i = sight.y + y / sight.cell, j = sight.x + x / sight.cell;
  sight.cell = Math.max(least, Math.min(64, sight.cell * by));
  sight.x = j - x / sight.cell; sight.y = i - y / sight.cell;
  plot();
}
let dragged = null;
function overMatrix(event) {
  if (dragged) {
    const dx = event.clientX - dragged.x, dy = event.clientY - dragged.y;
    if (Math.abs(dx) + Math.abs(dy) > 3) dragged.moved = true;
    sight.x = dragged.sx - dx / sight.cell; sight.y = dragged.sy - dy / sight.cell;
  }
  sight.at = cellAt(event);
  plot();
  const tip = $("tip");
  tip.hidden = !sight.at;
  if (!sight.at) return;
  const m = map(), [i, j] = sight.at;
  tip.replaceChildren(make("strong", { textContent: shown(current[i * columnsOf(m).shown.length + j]) }),
    make("b", {}, rowsOf(m).shown[i], make("sub", { textContent: i })), " looks at ", make("b", {}, columnsOf(m).shown[j], make("sub", { textContent: j })));
  const left = event.clientX + 16, wide = tip.offsetWidth;
  tip.style.left = `${left + wide > innerWidth - 8 ? Math.max(8, event.clientX - wide - 14) : left}px`;
  tip.style.top = `${Math.min(innerHeight - tip.offsetHeight - 8, event.clientY + 16)}px`;
}

/* ---- all heads ---- */
let smallOf = "";
async function heads() {
  const m = map(), H = m.heads.length, own = scene && scene.small && R.scene.kinds.includes(m.kind);
  const wide = $("view-heads").clientWidth, size = Math.max(24, Math.min(132, Math.floor((wide - 30) / H) - 5));
  const id = `${state.map} ${theme()} ${size} ${own ? state.row : ""}`;
  if (smallOf !== id) {
    smallOf = id;
    const raw = own ? null : await bytes(`t${state.map}`), [th, tw] = own ? scene.small.shape() : m.thumb;
    const tall = Math.max(14, Math.min(1.6 * size, Math.round((size * th) / tw)));
    $("small").style.gridTemplateColumns = `24px repeat(${H}, ${size}px)`;
    const cells = [make("span"), ...m.heads.map((h) => make("span", { textContent: h }))];
    for (const [l, layer] of m.layers.entries()) {
      cells.push(make("span", { className: "layer", textContent: layer }));
      for (const [i, h] of m.heads.entries()) {
        const canvas = make("canvas"), largest = own ? await scene.small.draw(canvas, l, i) : null;
        if (!own) thumb(canvas, raw.subarray((l * H + i) * th * tw, (l * H + i + 1) * th * tw), th, tw);
        const most = own ? ` Largest weight ${largest.toPrecision(2)}.` : "";
        const button = make("button", { type: "button", id: `s${l}.${i}`, title: `Layer ${layer}, head ${h}. ${told(m, l, i)}${most}` }, canvas);
        button.setAttribute("aria-label", `Open layer ${layer}, head ${h}`);
        button.style.height = `${tall}px`;
        button.onclick = () => go({ layer: l, head: i, view: own ? "scene" : "matrix" });
        cells.push(own && size >= 44 ? make("div", {}, button, make("span", { textContent: largest.toPrecision(2) })) : button);
      }
    }
    $("small").replaceChildren(...cells);
  }
  for (const button of $("small").querySelectorAll("button")) { button.removeAttribute("aria-current"); button.tabIndex = -1; }
  const here = $(`s${state.layer}.${Math.max(0, state.head)}`);
  here.tabIndex = 0;
  if (state.head >= 0) here.setAttribute("aria-current", "true");
  if ($("small").contains(document.activeElement)) here.focus();
}

function thumb(canvas, levels, rows, columns) {
  canvas.width = columns; canvas.height = rows;
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer);
  for (let p = 0; p < rows * columns; p++) pixels[p] = packed[levels[p]];
  context.putImageData(image, 0, 0);
}

/* ---- one pair, step by step ---- */
const FORMS = {
  dot: { term: (q, k) => q * k, words: "Each number of the query times the number of the key at the same place." },
  tanh: { term: (q, k, v) => v * Math.tanh(q + k), words: "Query and key are added, squashed by tanh, and weighed by a learned vector." },
  relu: { term: (q, k, v) => v * Math.max(0, q + k), words: "Query and key are added, what is below zero is cut off, and the rest weighed by a learned vector." },
  gaussian: { term: (q, k) => -0.5 * (q - k) ** 2, words: "Minus half the squared distance, measured in bandwidths." },
};
async function pair() {
  const m = map(), T = rowsOf(m).shown.length, S = columnsOf(m).shown.length;
  if (!m.computed) {
    $("pair").replaceChildren(make("p", { className: "note" }, "This record holds the weights alone. To see how one comes about, keep the queries and keys too: ",
      make("code", { textContent: "model.look(text, queries=True)" }), "."));
    return;
  }
  const { form, scale, width: E, vector } = m.computed, { q, k } = await vectors(state.map, state.layer, state.head);
  const i = state.row ?? (m.kind === "masked" ? T - 1 : 0), j = state.column ?? strongestColumn(i, S), v = vector ? vector[state.layer] : null;
  const term = FORMS[form].term, products = new Float32Array(E);
  const score = (key) => { let sum = 0; for (let e = 0; e < E; e++) sum += term(q[i * E + e], k[key * E + e], v ? v[e] : 0); return sum; };
  for (let e = 0; e < E; e++) products[e] = term(q[i * E + e], k[j * E + e], v ? v[e] : 0);
  const open = (key) => m.kind !== "masked" || key <= i;
  const scores = Array.from({ length: S }, (_, key) => (open(key) ? score(key) * scale : -Infinity));
  const top = Math.max(...scores), parts = scores.map((s) => Math.exp(s - top)), total = parts.reduce((a, b) => a + b, 0);
  const asks = rowsOf(m).shown[i], looked = columnsOf(m).shown[j], sum = products.reduce((a, b) => a + b, 0);
  const choose = (label, axis, at, key) => {
    const select = make("select", { id: `pick-${key}`, onchange: (e) => go({ [key]: +e.target.value, pinned: true }) },
      ...axis.shown.map((text, n) => make("option", { value: n, textContent: `${text}`, selected: n === at })));
    return make("label", {}, label, select);
  };
  const canvas = (id) => make("canvas", { id });
  const step = (title, words, ...what) => make("li", {}, make("p", {}, make("b", { textContent: title }), words), make("div", {}, ...what));
  const scaling = form === "dot" && scale !== 1 ? ` × ${scale.toFixed(4)} = ` : "";
  const sums = make("p", { className: "figure" }, `${sum.toFixed(4)}${scaling}`, scaling ? make("strong", { textContent: (sum * scale).toFixed(4) }) : "");
  const result = make("p", { className: "figure" }, `exp(${(sum * scale).toFixed(3)}) ÷ Σ exp = `, make("strong", { id: "computed", textContent: open(j) ? (parts[j] / total).toFixed(4) : "0" }),
    make("span", { id: "recorded", textContent: `, recorded as ${current[i * S + j].toFixed(4)}` }));
  $("pair").replaceChildren(
    make("div", { className: "pick" }, choose("asks", rowsOf(m), i, "row"), choose("is looked at", columnsOf(m), j, "column")),
    make("ol", { className: "steps" },
      step(`The query of ${asks}`, `${E} numbers: what it asks for. Bars up are positive, bars down negative.`, canvas("strip-q")),
      step(`The key of ${looked}`, "What it answers to.", canvas("strip-k")),
      step("Compared, place by place", FORMS[form].words, canvas("strip-p")),
      step("Added up", scaling ? `And divided by √${E} ≈ ${(1 / scale).toFixed(2)}, so that long vectors do not make the softmax hard.` : "The score of this pair.", sums),
      step("Against the others", open(j) ? "Scores of all that could be looked at, and what softmax makes of them." : "This place comes later, so it cannot be looked at.", canvas("against"), result)));
  bars($("strip-q"), q.subarray(i * E, i * E + E)); bars($("strip-k"), k.subarray(j * E, j * E + E)); bars($("strip-p"), products);
  ranking(scores, parts.map((p) => p / total), j);
}
function strongestColumn(i, S) { let best = 0; for (let j = 1; j < S; j++) if (current[i * S + j] > current[i * S + best]) best = j; return best; }
function bars(canvas, numbers) {
  const width = canvas.parentElement.clientWidth, height = 58, context = fitted(canvas, width, height);
  const most = numbers.reduce((a, v) => Math.max(a, Math.abs(v)), 1e-9), step = width / numbers.length, wide = Math.max(0.5, step - (step > 3 ? 1 : 0));
  numbers.forEach((v, n) => {
    const tall = (Math.abs(v) / most) * (height / 2 - 1);
    context.fillStyle = css(v >= 0 ? "--accent" : "--against");
    context.fillRect(n * step, v >= 0 ? height / 2 - tall : height / 2, wide, tall);
  });
  context.fillStyle = css("--faint"); context.fillRect(0, height / 2 - 0.5, width, 1);
  canvas.title = `largest: ${most.toPrecision(3)}`;
}
function ranking(scores, weights, j) {
  const m = map(), order = scores.map((_, n) => n).filter((n) => isFinite(scores[n])).sort((a, b) => scores[b] - scores[a]);
  const top = order.slice(0, 10);
  if (!top.includes(j) && isFinite(scores[j])) top.push(j);
  const canvas = $("against"), width = canvas.parentElement.clientWidth, tall = 24, context = fitted(canvas, width, top.length * tall + 22);
  const name = Math.min(150, width * 0.3), low = Math.min(0, ...top.map((n) => scores[n])), high = Math.max(0, ...top.map((n) => scores[n])), span = (width - name - 150) / (high - low || 1);
  context.textBaseline = "middle"; context.font = `12px ${css("--sans")}`; context.fillStyle = css("--quiet");
  context.textAlign = "right"; context.fillText("score", width - 74, 8); context.fillText("weight", width, 8);
  top.forEach((n, at) => {
    const y = 22 + at * tall + tall / 2, mine = n === j, start = name + (Math.min(0, scores[n]) - low) * span;
    context.textAlign = "left"; context.font = font(16); context.fillStyle = css(mine ? "--accent" : "--ink");
    context.fillText(clip(columnsOf(m).shown[n]), 0, y, name - 10);
    context.fillStyle = css(mine ? "--accent" : "--against"); context.fillRect(start, y - 3, Math.max(1, Math.abs(scores[n]) * span), 6);
    context.textAlign = "right"; context.font = `13px ${css("--sans")}`; context.fillStyle = css(mine ? "--accent" : "--quiet");
    context.fillText(scores[n].toFixed(3), width - 74, y); context.fillText(weights[n].toFixed(4), width, y);
  });
}

/* ---- output ---- */
const ABOUT = {
  next: "After each piece, what the model thought would come next. What did come is in colour.",
  here: "At each place, what the model would have put there. What stands there is in colour.",
  label: "The labels, with the model's probabilities.",
  span: "Where the model would have the answer begin and end.",
};
let saidOf = "";
function output() {
  if (saidOf) return;
  saidOf = "done";
  const out = R.outputs, axis = R.axes[out.axis];
  $("said-lead").textContent = ABOUT[out.says];
  $("said").replaceChildren(...out.tokens.map((tokens, n) => {
    const given = out.given[n], list = tokens.map((text, i) => [text, out.probabilities[n][i], given && given[2] === i]);
    if (given && given[2] < 0) list.push([given[0], given[1], true]);
    const options = list.map(([text, p, is]) => {
      const bar = make("i"); bar.style.width = `${100 * p}%`;
      return make("span", { className: is ? "given" : "", title: text }, make("b", { textContent: text }), p.toFixed(3), bar);
    });
    return make("li", {}, make("span", { className: "n", textContent: n }), make("span", { className: "at", textContent: axis.shown[n], title: axis.shown[n] }), make("div", { className: "options" }, ...options));
  }));
}

/* ---- an image, a sound or a series: drawn by the task's own script, with what it needs of the frame ---- */
const FRAME = { R, $, make, state, map, rowsOf, columnsOf, head, bytes, css, theme, fitted, go, show, legend, now: () => current, colour: (share) => colour(Math.round(255 * Math.min(1, share))) };
const scene = R.scene ? sceneOf(FRAME) : null;

const DRAW = { scene: () => scene.draw(), lines, matrix, heads, pair, output };
const HOW = {
  lines: "The stronger a line, the more of its attention goes there.",
  matrix: "A row for each one that looks, a column for each that is looked at. Weights of a row sum to 1; half of the colour is a quarter of the weight.",
  heads: "Rows look, columns are looked at, as in the matrix. In the grid of layers and heads, the stronger the colour, the sharper the head.",
  pair: "How one weight comes about: compare, add, scale, and share out among all.",
  output: "Probabilities of the model's output, the likeliest first.",
};

/* ---- wiring ---- */
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colours`);
  paint();
}
const wantsDark = matchMedia("(prefers-color-scheme: dark)"), given = theme();  // by who shows this page in another
setTheme(given || (wantsDark.matches ? "dark" : "light"));
if (!given) wantsDark.addEventListener("change", (e) => { setTheme(e.matches ? "dark" : "light"); show(); });
$("theme").onclick = () => { setTheme(theme() === "dark" ? "light" : "dark"); show(); };
$("kicker").textContent = R.about || (R.scene ? "" : R.title) || "What the model looked at";
$("notes").hidden = !R.notes.length;
$("notes").textContent = `To keep this file small, ${R.notes.join("; ")}. model.look(…, layers=[…], kinds=[…]) shows them.`;
if (scene) $("view-scene").replaceChildren(...scene.parts());
$("through").onclick = () => { state.through = !state.through; show(); };
$("read").textContent = R.read; $("wrote").textContent = R.wrote || ""; $("wrote").hidden = !R.wrote;
$("kinds").append(...R.maps.map((m, i) => {
  const button = make("button", { type: "button", onclick: () => goMap(i) }, make("b", { textContent: KINDS[m.kind] }), make("span", { textContent: `${m.names[0]} looks at ${m.rows === m.columns ? "itself" : m.names[1]}` }));
  button.setAttribute("role", "radio");
  return button;
}));
$("kinds-box").hidden = R.maps.length < 2;
const rove = (box, step) => box.addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault(); event.stopPropagation();
  const all = [...box.children], next = all[(all.indexOf(document.activeElement) + by + all.length) % all.length];
  next.focus(); step(next);
});
for (const box of [$("tabs"), $("kinds")]) box.addEventListener("click", (event) => { if (event.detail) document.activeElement.blur(); });  // after a click, arrows go on with heads
rove($("tabs"), (tab) => goView(tab.dataset.view));
rove($("kinds"), (button) => button.click());
for (const id of ["asks", "seen"]) {
  $(id).addEventListener("pointerover", point);
  $(id).addEventListener("click", (event) => {
    const item = event.target.closest("li[data-i]");
    if (!item) return;
    const same = state.pinned && state[item.dataset.key] === +item.dataset.i;
    state.pinned = false; point(event); state.pinned = !same;
    if (same) letGo();
  });
  $(id).addEventListener("keydown", walk);
}
$("lines").addEventListener("pointerleave", () => { if (!state.pinned) letGo(); });
const canvas = $("matrix");
canvas.addEventListener("pointermove", overMatrix);
canvas.addEventListener("pointerleave", () => { sight.at = null; $("tip").hidden = true; plot(); });
canvas.addEventListener("pointerdown", (e) => { dragged = { x: e.clientX, y: e.clientY, sx: sight.x, sy: sight.y, moved: false }; canvas.setPointerCapture(e.pointerId); });
canvas.addEventListener("pointerup", (e) => {
  const still = dragged && !dragged.moved, at = cellAt(e);
  dragged = null;
  if (still && at && map().computed) { $("tip").hidden = true; go({ row: at[0], column: at[1], pinned: true, view: "pair" }); }
});
canvas.addEventListener("wheel", (e) => { e.preventDefault(); zoom(Math.exp(-e.deltaY / 400), e.offsetX, e.offsetY); overMatrix(e); }, { passive: false });
$("closer").onclick = () => zoom(1.4); $("farther").onclick = () => zoom(1 / 1.4); $("fit").onclick = fit;
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input, audio")) return;
  const key = event.key, views = available();
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  if (moves[key] && state.view !== "output") { event.preventDefault(); move(...moves[key]); }
  else if (key === "Escape") letGo();
  else if (+key >= 1 && +key <= views.length) goView(views[key - 1][0]);
  else if (state.view === "matrix" && (key === "+" || key === "=")) zoom(1.4);
  else if (state.view === "matrix" && key === "-") zoom(1 / 1.4);
  else if (state.view === "matrix" && key === "0") fit();
});
let resized = 0;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => { if (state.view === "matrix") fit(); else show(); }, 80); });
goMap(0);
})();
