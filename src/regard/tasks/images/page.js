/* The image under what was looked at in it: by the class token, by all patches, by one, or by the learned query. */
const sceneOf = (frame) => {
  const { R, $, make, state, map, now, head, legend, show } = frame, F = R.scene, over = overlay(frame);
  const [rows, columns] = F.grid, extra = F.extra, tokens = rows * columns + extra;
  let rolled = null;

  async function rollout() {
    if (rolled) return rolled;
    const raw = await frame.bytes("rollout"), numbers = new Float32Array(raw.buffer);
    return (rolled = numbers);
  }
  /* How much each patch was looked at, by who asks: the pool's one query, a patch, the class token, or all on average. */
  function asked(weights, whole) {
    const from = (row) => weights.subarray(row * tokens + extra, (row + 1) * tokens);
    if (map().kind !== F.kinds[0]) return from(0);
    if (state.row !== null) return from(state.row);
    if (whole) return from(tokens);
    if (extra) return from(0);
    const sum = new Float32Array(tokens);
    for (let i = 0; i < weights.length; i++) sum[i % tokens] += weights[i] / tokens;
    return sum;
  }
  const who = () => {
    if (map().kind !== F.kinds[0]) return "The learned query that decides the answer looked most at";
    if (state.row === null) return state.through ? "Most of the answer comes from" : `${extra ? "The class token" : "All patches, on average,"} looked most at`;
    const place = state.row - extra;
    return `The patch in row ${Math.floor(place / columns)}, column ${place % columns} ${state.through ? "holds most of" : "looked most at"}`;
  };
  async function draw() {
    await over.open();
    const seen = asked(state.through ? await rollout() : now(), state.through), most = Math.max(...seen, 1e-9);
    over.original($("plain"));
    over.draw($("image"), seen, most);
    mark();
    const best = seen.indexOf(Math.max(...seen));
    $("told").textContent = `${who()} row ${Math.floor(best / columns)}, column ${best % columns} (weight ${seen[best].toFixed(3)}), ${$("where").textContent.toLowerCase() || "the only head"}.`;
    $("image").setAttribute("aria-label", `The image, coloured where it was looked at. ${$("told").textContent}`);
    legend(most);
  }
  function mark() {
    const here = $("frame"), place = state.row === null || map().kind !== F.kinds[0] ? -1 : state.row - extra;
    here.hidden = place < 0;
    if (place < 0) return;
    Object.assign(here.style, { left: `${100 * (place % columns) / columns}%`, top: `${100 * Math.floor(place / columns) / rows}%`, width: `${100 / columns}%`, height: `${100 / rows}%` });
  }
  function point(event) {
    if (map().kind !== F.kinds[0] || state.pinned) return;
    const box = $("image").getBoundingClientRect(), among = (share, n) => Math.max(0, Math.min(n - 1, Math.floor(share * n)));
    const place = among((event.clientY - box.top) / box.height, rows) * columns + among((event.clientX - box.left) / box.width, columns) + extra;
    if (place !== state.row) { state.row = place; show(); }
  }
  function walk(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (!by || map().kind !== F.kinds[0]) return;
    event.preventDefault(); event.stopPropagation();
    const place = state.row === null ? 0 : state.row - extra + by;
    if (place >= 0 && place < rows * columns) { state.row = place + extra; state.pinned = true; show(); }
  }
  function parts() {
    const image = make("canvas", { id: "image", tabIndex: 0, onpointermove: point, onkeydown: walk });
    image.setAttribute("role", "img");
    image.onpointerleave = () => { if (!state.pinned) { state.row = null; show(); } };
    image.onclick = (event) => { const before = state.row; state.pinned = false; point(event); state.pinned = true; if (before === state.row && image.dataset.held === `${before}`) { state.pinned = false; image.dataset.held = ""; } else image.dataset.held = `${state.row}`; };
    const plain = make("canvas", { id: "plain" });
    plain.setAttribute("role", "img"); plain.setAttribute("aria-label", "The image as the model saw it");
    const told = make("figcaption", { id: "told" });
    told.setAttribute("aria-live", "polite");
    const over = make("div", { className: "over" }, image, make("div", { id: "frame", hidden: true }));
    return [make("div", { className: "picture cells" }, make("figure", { className: "large" }, over, make("div", { id: "scale-here" }), told),
      make("figure", { className: "plain" }, plain, make("figcaption", { textContent: "The image as the model saw it." })))];
  }
  const small = {
    shape: () => over.size().reverse(),
    draw: async (canvas, layer, number) => {
      await over.open();
      const seen = asked(await head(state.map, layer, number), false), most = Math.max(...seen, 1e-9), [width, height] = over.size();
      over.draw(canvas, seen, most, Math.min(1, 132 / Math.max(width, height)));
      return most;
    },
  };
  const how = () => "The stronger the colour, the more a patch was looked at; below it the image, in pale grey. Half of the colour is half of the weight." +
    (map().kind === F.kinds[0] ? " Point at a patch, or go through them with the arrow keys, to see what it looked at itself; a click holds it." : "");
  const howSmall = "The image under each head, on the head’s own scale: its largest weight is written below it.";
  return { parts, draw, small, how, howSmall, bar: over.bar };
};
