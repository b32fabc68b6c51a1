/* The image under what was looked at for each word of its caption. */
const sceneOf = (frame) => {
  const { R, $, make, state, now, head, legend, show, rowsOf, map, theme } = frame, F = R.scene, over = overlay(frame);
  const places = F.grid[0] * F.grid[1];
  let stripOf = "";

  /* Where one word looked, or all of them on average. */
  function asked(weights) {
    if (state.row !== null) return weights.subarray(state.row * places, (state.row + 1) * places);
    const sum = new Float32Array(places);
    for (const row of F.words) for (let i = 0; i < places; i++) sum[i] += weights[row * places + i] / F.words.length;
    return sum;
  }
  const word = (row) => rowsOf(map()).shown[row];
  async function draw() {
    await over.open();
    const seen = asked(now()), most = Math.max(...seen, 1e-9), best = seen.indexOf(Math.max(...seen));
    over.original($("plain"));
    over.draw($("image"), seen, most);
    const where = $("where").textContent.toLowerCase();
    $("told").textContent = `${state.row === null ? "All words, on average," : `“${word(state.row)}”`} looked most at row ${Math.floor(best / F.grid[1])}, column ${best % F.grid[1]} of ${F.grid[0]} × ${F.grid[1]} places (weight ${seen[best].toFixed(3)})${where ? `, ${where}` : ""}.`;
    $("image").setAttribute("aria-label", `The image, coloured where it was looked at. ${$("told").textContent}`);
    strip();
    legend(most);
  }
  function strip() {
    const id = `${state.layer} ${state.head} ${theme()}`, [width, height] = over.size();
    if (stripOf !== id) {
      stripOf = id;
      for (const button of $("strip").children) {
        const row = +button.dataset.row, seen = now().subarray(row * places, (row + 1) * places), most = Math.max(...seen, 1e-9);
        over.draw(button.firstChild, seen, most, 104 / Math.max(width, height));
        button.lastChild.textContent = `0 … ${most.toPrecision(2)}`;
      }
    }
    for (const button of $("strip").children) {
      const on = +button.dataset.row === state.row;
      button.setAttribute("aria-pressed", on && state.pinned);
    }
  }
  const point = (row) => { if (!state.pinned) { state.row = row; show(); } };
  function parts() {
    const image = make("canvas", { id: "image" }), plain = make("canvas", { id: "plain" });
    for (const canvas of [image, plain]) canvas.setAttribute("role", "img");
    plain.setAttribute("aria-label", "The image");
    const told = make("figcaption", { id: "told" });
    told.setAttribute("aria-live", "polite");
    const words = make("div", { className: "strip", id: "strip", onpointerleave: () => point(null) }, ...F.words.map((row) => {
      const button = make("button", { type: "button", title: word(row) }, make("canvas"), make("b", { textContent: word(row) }), make("span"));
      button.dataset.row = row;
      button.onpointerenter = button.onfocus = () => point(row);
      button.onclick = () => { const same = state.pinned && state.row === row; Object.assign(state, { row: same ? null : row, pinned: !same }); show(); };
      return button;
    }));
    const title = F.words.length ? make("h2", { textContent: "Word by word, each on its own scale" }) : make("p", { className: "note", textContent: "The model wrote no word about this image." });
    return [make("div", { className: "picture" }, make("figure", { className: "large" }, image, make("div", { id: "scale-here" }), told),
      make("figure", { className: "plain" }, plain, make("figcaption", { textContent: "The image." }))), title, words];
  }
  const small = {
    shape: () => over.size().reverse(),
    draw: async (canvas, layer, number) => {
      await over.open();
      const seen = asked(await head(state.map, layer, number)), most = Math.max(...seen, 1e-9);
      over.draw(canvas, seen, most, 132 / Math.max(...over.size()));
      return most;
    },
  };
  const how = () => "The stronger the colour, the more of a word’s attention fell there; below it the image, in pale grey. Half of the colour is half of the weight. Point at a word, or step through them with the tab key; a click holds it.";
  const howSmall = "The image under each head, for the word that is held or for all on average, on the head’s own scale: its largest weight is written below it.";
  return { parts, draw, small, how, howSmall, bar: over.bar };
};
