/* A series and its forecast, and below them, over the same time, what was looked at. */
const sceneOf = (frame) => {
  const { R, $, make, state, map, rowsOf, columnsOf, now, css, colour, fitted, legend, show } = frame, F = R.scene;
  const steps = F.times.length, coming = F.forecast.map((_, i) => F.begin + i);
  const ahead = () => map().rows === "future";
  let room = null;

  const numbers = [F.past, F.forecast, ...(F.band || []), F.truth || [], ...F.others].flat().filter((v) => v !== null);
  const lowest = numbers.reduce((a, b) => Math.min(a, b), Infinity), highest = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
  const told = (value) => (Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(2) : +value.toPrecision(5) + "");

  /* The weights of who asks, or of all on average, over the places of the past; and the same over its steps. */
  function weights() {
    const S = columnsOf(map()).shown.length, all = now();
    if (state.row !== null) return all.subarray(state.row * S, (state.row + 1) * S);
    const sum = new Float32Array(S), T = all.length / S;
    all.forEach((w, i) => { sum[i % S] += w / T; });
    return sum;
  }
  function chart() {
    const width = $("series").parentElement.clientWidth, tall = width < 500 ? 230 : 320, below = 96, between = F.beside.length * 20, context = fitted($("series"), width, tall + between + below + 34);
    context.font = `12px ${css("--sans")}`;
    const ticks = marks(lowest, highest, 4), left = Math.max(...ticks.map((v) => context.measureText(told(v)).width), ...F.beside.map((b) => Math.min(90, context.measureText(b.name).width)), 44) + 10;
    const span = highest - lowest || 1, wide = width - left - 6;
    room = { left, wide, tall, between, below, width };
    return { context, x: (step) => left + ((step + 0.5) / steps) * wide, y: (value) => tall - 12 - ((value - lowest) / span) * (tall - 24), ticks, ...room };
  }
  function marks(low, high, n) {
    if (!(high > low)) return [low];
    const raw = (high - low) / n, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((k) => k * power >= raw) * power;
    return Array.from({ length: n + 2 }, (_, i) => (Math.ceil(low / step) + i) * step).filter((v) => v <= high);
  }
  function line(c, values, from, colour, wide, dash = []) {
    c.context.strokeStyle = colour; c.context.lineWidth = wide; c.context.setLineDash(dash); c.context.lineJoin = "round";
    c.context.beginPath();
    let down = false;
    values.forEach((value, i) => {
      if (value === null) { down = false; return; }
      c.context[down ? "lineTo" : "moveTo"](c.x(from + i), c.y(value)); down = true;
    });
    c.context.stroke(); c.context.setLineDash([]);
    if (values.length === 1 && values[0] !== null) dot(c, from, values[0], colour);
  }
  function dot(c, step, value, colour) { c.context.fillStyle = colour; c.context.beginPath(); c.context.arc(c.x(step), c.y(value), 4, 0, 7); c.context.fill(); }
  function lines(c) {
    const { context, left, width, tall } = c;
    context.textBaseline = "middle"; context.textAlign = "right"; context.fillStyle = css("--quiet");
    for (const value of c.ticks) {
      context.fillText(told(value), left - 8, c.y(value));
      context.strokeStyle = css("--rule"); context.lineWidth = 1;
      context.beginPath(); context.moveTo(left, c.y(value)); context.lineTo(width, c.y(value)); context.stroke();
    }
    for (const other of F.others) { context.globalAlpha = 0.8; line(c, other, 0, css("--against"), 1); context.globalAlpha = 1; }
    line(c, F.past, 0, css("--quiet"), 1.3);
    if (F.band) {
      context.fillStyle = css("--accent"); context.globalAlpha = 0.2; context.beginPath();
      coming.forEach((step, i) => context.lineTo(c.x(step), c.y(F.band[1][i])));
      [...coming].reverse().forEach((step) => context.lineTo(c.x(step), c.y(F.band[0][step - F.begin])));
      context.fill(); context.globalAlpha = 1;
    }
    line(c, F.forecast, F.begin, css("--accent"), 2);
    if (F.truth) line(c, F.truth, F.begin, css("--ink"), 1.8, [2, 3]);
    const border = (c.x(F.begin) + c.x(F.begin - 1)) / 2;
    context.strokeStyle = css("--faint"); context.setLineDash([2, 3]); context.beginPath(); context.moveTo(border, 6); context.lineTo(border, tall); context.stroke(); context.setLineDash([]);
  }
  /* Weights of places over the steps they stand for: a place shares its weight among them. */
  function byStep(seen) {
    const found = new Float32Array(F.past.length);
    F.spans.forEach(([begin, end], i) => { for (let step = begin; step < end; step++) found[step] += seen[i] / (end - begin); });
    return found;
  }
  /* Columns beside the series, a strip each: numbers as bars, texts as shades; nothing where they are not known. */
  function strips(c) {
    const { context, left, wide, tall } = c, each = wide / steps;
    F.beside.forEach(({ name, cells }, i) => {
      const floor = tall + 20 * (i + 1), given = cells.filter((v) => v !== null && v !== ""), texts = [...new Set(given.filter((v) => typeof v === "string"))].sort();
      const scale = given.filter((v) => typeof v === "number"), low = Math.min(0, ...scale), high = Math.max(...scale, low + 1e-9);
      context.textAlign = "right"; context.textBaseline = "middle"; context.fillStyle = css("--quiet"); context.fillText(name, left - 8, floor - 7, left - 10);
      cells.forEach((value, step) => {
        if (value === null || value === "") return;
        const tells = typeof value === "string" ? (texts.indexOf(value) + 1) / texts.length : (value - low) / (high - low), tall = typeof value === "string" ? 13 : 13 * tells;
        context.fillStyle = css(step < F.begin ? "--quiet" : "--accent"); context.globalAlpha = typeof value === "string" ? 0.2 + 0.7 * tells : 0.85;
        context.fillRect(left + step * each, floor - tall, Math.max(1, each - (each > 3 ? 1 : -0.5)), tall);
      });
      context.globalAlpha = 1;
    });
  }
  function bars(c, seen, most) {
    const { context, left, wide, tall, between, below } = c, floor = tall + between + below, each = wide / steps;
    seen.forEach((weight, step) => {
      const high = (weight / most) * (below - 16), x = left + step * each, across = Math.max(1, each - (each > 3 ? 1 : -0.5));
      context.fillStyle = colour(weight / most); context.fillRect(x, floor - high, across, high);
      context.fillStyle = css("--accent"); context.fillRect(x, floor - high - 1, across, 1.5);
    });
    if (F.linear) {
      const top = [...F.linear].sort((a, b) => b - a)[Math.min(1, F.linear.length - 1)] || 1e-9;  // the last value alone may rise above it
      const shares = new Path2D();
      F.linear.forEach((share, i) => shares.lineTo(c.x(i), floor - Math.min(1.06, share / top) * (below - 16)));
      context.strokeStyle = css("--paper"); context.lineWidth = 4; context.stroke(shares);  // dashes are seen on bars of any shade
      context.strokeStyle = css("--ink"); context.lineWidth = 1.4; context.setLineDash([3, 2]); context.stroke(shares); context.setLineDash([]);
    }
    context.fillStyle = css("--quiet"); context.textAlign = "right"; context.textBaseline = "middle";
    context.fillText(most.toPrecision(2), left - 8, tall + between + 16); context.fillText("0", left - 8, floor);
    context.strokeStyle = css("--faint"); context.lineWidth = 1; context.beginPath(); context.moveTo(left, floor + 0.5); context.lineTo(left + wide, floor + 0.5); context.stroke();
    times(c, floor + 20);
  }
  function times({ context, left, wide, width }, y) {
    const longest = Math.max(...F.times.map((t) => t.length)), n = Math.max(2, Math.min(6, Math.floor(wide / (7.4 * longest + 18))));
    context.fillStyle = css("--quiet");
    for (let k = 0; k < n; k++) {
      const step = Math.round((k * (steps - 1)) / (n - 1)), x = left + ((step + 0.5) / steps) * wide;
      context.textAlign = k === 0 ? "left" : k === n - 1 ? "right" : "center";
      context.fillText(F.times[step], k === 0 ? left : k === n - 1 ? width : x, y, wide / n);
    }
  }
  function chosen(c) {
    if (state.row === null) return;
    const { context, tall } = c, [begin, end] = ahead() ? [F.begin + state.row, F.begin + state.row + 1] : F.spans[state.row];
    const a = c.x(begin - 0.5), b = c.x(end - 0.5);
    context.fillStyle = css("--ink"); context.globalAlpha = 0.1; context.fillRect(a, 4, Math.max(2, b - a), tall - 4); context.globalAlpha = 1;
    if (ahead()) dot(c, F.begin + state.row, F.forecast[state.row], css("--accent"));
  }
  function sentence(seen) {
    const best = seen.indexOf(Math.max(...seen)), where = `${columnsOf(map()).shown[best].replaceAll("␣", " ")} (weight ${seen[best].toFixed(3)})`;
    if (state.row === null) return `On average over ${ahead() ? "all steps of the forecast" : "all places"}, ${where} was looked at most.`;
    const name = rowsOf(map()).shown[state.row].replaceAll("␣", " ");
    if (!ahead()) return `${name} looked most at ${where}.`;
    const i = state.row, bounds = F.band ? ` (${told(F.band[0][i])} to ${told(F.band[1][i])})` : "", came = F.truth && F.truth[i] !== null ? `, and it was ${told(F.truth[i])}` : "";
    const beside = F.beside.map(({ name, cells }) => [name, cells[F.begin + i]]).filter(([, v]) => v !== null && v !== "").map(([name, v]) => `${name} ${typeof v === "number" ? told(v) : v}`);
    return `${name}: ${told(F.forecast[i])}${bounds}${came}${beside.length ? `, with ${beside.join(", ")}` : ""}. It looked most at ${where}.`;
  }
  function draw() {
    const c = chart(), seen = weights(), shares = byStep(seen), most = Math.max(...shares, 1e-9);
    chosen(c); lines(c); strips(c); bars(c, shares, most);
    $("told").textContent = sentence(seen);
    $("series").setAttribute("aria-label", `${F.target}: ${F.past.length} steps that were read and ${F.forecast.length} of forecast. ${$("told").textContent}`);
    const slider = $("step"), n = rowsOf(map()).shown.length;
    slider.parentElement.hidden = n < 2; slider.max = n - 1; slider.value = state.row ?? 0;
    $("step-name").textContent = ahead() ? "Step of the forecast" : "Place of the past";
    slider.setAttribute("aria-valuetext", state.row === null ? "all, on average" : rowsOf(map()).shown[state.row]);
    $("all").setAttribute("aria-pressed", state.row === null);
    legend(most);
  }
  function point(event) {
    if (state.pinned || !room) return;
    const step = Math.floor(((event.clientX - $("series").getBoundingClientRect().left - room.left) / room.wide) * steps);
    let row = null;
    if (ahead() && step >= F.begin && step < F.begin + F.forecast.length) row = step - F.begin;
    if (!ahead()) row = nearest(step);
    if (row !== state.row) { state.row = row; show(); }
  }
  function nearest(step) {
    const inside = F.spans.flatMap(([begin, end], i) => (step >= begin && step < end ? [[Math.abs((begin + end - 1) / 2 - step), i]] : []));
    return inside.length ? inside.sort((a, b) => a[0] - b[0])[0][1] : null;
  }
  const key = (name, style) => { const i = make("i"); Object.assign(i.style, style); return make("span", {}, i, name); };
  function parts() {
    const canvas = make("canvas", { id: "series", onpointermove: point });
    canvas.setAttribute("role", "img");
    canvas.onpointerleave = () => { if (!state.pinned && state.row !== null) { state.row = null; show(); } };
    canvas.onclick = (event) => { const was = state.pinned ? state.row : null; state.pinned = false; point(event); state.pinned = state.row !== null && state.row !== was; if (!state.pinned) state.row = null; show(); };
    const slider = make("input", { id: "step", type: "range", min: 0, value: 0, oninput: (event) => { state.row = +event.target.value; state.pinned = true; show(); } });
    slider.setAttribute("aria-labelledby", "step-name");
    const told = make("p", { id: "told", className: "told" });
    told.setAttribute("aria-live", "polite");
    const keys = [F.past.some((v) => v !== null) ? key("known", {}) : "", F.others.length ? key("read, to scale", { borderTopColor: "var(--against)" }) : "",
      key("forecast", { borderTopColor: "var(--accent)" }), F.band ? key("its bounds", { borderTop: "9px solid var(--accent)", opacity: 0.3 }) : "",
      F.truth ? key("what came", { borderTop: "2px dotted var(--ink)" }) : "", F.linear ? key("share in the linear model, on a scale of its own", { borderTop: "2px dashed var(--ink)" }) : ""];
    return [make("div", { className: "key" }, ...keys), make("div", { className: "along" }, canvas),
      make("div", { id: "scale-here" }), told,
      make("div", { className: "slide" }, make("span", { id: "step-name" }), slider, make("button", { type: "button", id: "all", textContent: "All", onclick: () => { Object.assign(state, { row: null, pinned: false }); show(); } }))];
  }
  const how = () => "Below the series: how much each part of what was read was looked at. Height and colour both tell the weight" + (F.spans.some(([begin, end]) => end - begin > 1) ? " of a step; a place of several steps shares its weight among them. " : ". ") +
    (ahead() ? "Point at a step of the forecast, or move the slider; a click holds it." : "This attention is between places of the past; each step of the forecast is read from all of them. Point at one, or move the slider, to see what it looked at; a click holds it.") +
    (F.beside.length ? " Between the two: columns beside the series, as far as they are known." : "");
  return { parts, draw, how };
};
