/* A recording to be played, with its words, its spectrogram, and below it what was listened to for a word. */
const sceneOf = (frame) => {
  const { R, $, make, state, map, columnsOf, now, css, colour, fitted, legend, show, bytes, theme } = frame, F = R.scene;
  const [frames, bands] = F.shape, heard = Math.max(frames * F.hop, F.seconds), TALL = 150, BELOW = 84, FOOT = 26;
  let levels = null, drawn = null, drawnOf = "", kept = null;

  /* Where one word looked, the mean of its pieces, or all words on average. */
  function weights() {
    const S = columnsOf(map()).shown.length, all = now(), sum = new Float32Array(S);
    const rows = state.row === null ? F.words.flatMap((word) => word[3]) : rowsOf(state.row), asked = rows.length ? rows : [0];
    for (const row of asked) for (let i = 0; i < S; i++) sum[i] += all[row * S + i] / asked.length;
    return sum;
  }
  const wordOf = (row) => F.words.findIndex((word) => word[3].includes(row));
  const rowsOf = (row) => (wordOf(row) < 0 ? [row] : F.words[wordOf(row)][3]);

  async function spectrogram() {
    levels ??= await bytes("mel");
    if (drawnOf === theme()) return;
    drawnOf = theme(); drawn = new OffscreenCanvas(frames, bands);
    const rgb = (name) => { const hex = css(name); return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)); };
    const [quiet, loud] = [rgb("--sheet"), rgb("--ink")], context = drawn.getContext("2d"), image = context.createImageData(frames, bands);
    for (let t = 0; t < frames; t++) for (let b = 0; b < bands; b++) {
      const share = levels[t * bands + b] / 255, at = ((bands - 1 - b) * frames + t) * 4;
      for (let part = 0; part < 3; part++) image.data[at + part] = quiet[part] + share * (loud[part] - quiet[part]);
      image.data[at + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  }
  const width = () => Math.max($("sound").parentElement.clientWidth, Math.round(24 * heard));
  const left = 44, x = (seconds) => left + (seconds / heard) * (width() - left - 2);
  async function draw() {
    await spectrogram();
    const seen = weights(), most = Math.max(...seen, 1e-9);
    kept = { seen, most };
    paint();
    sentence(seen);
    legend(most);
    [...$("words").children].forEach((button, i) => button.setAttribute("aria-pressed", state.row !== null && wordOf(state.row) === i && state.pinned));
  }
  function paint() {
    const { seen, most } = kept, context = fitted($("sound"), width(), TALL + BELOW + FOOT), floor = TALL + BELOW;
    context.imageSmoothingEnabled = true;
    context.drawImage(drawn, x(0), 0, x(frames * F.hop) - x(0), TALL);
    seen.forEach((weight, i) => {
      const from = x(i * F.place), across = Math.max(1, x((i + 1) * F.place) - from), high = (weight / most) * (BELOW - 14);
      context.fillStyle = colour(weight / most); context.fillRect(from, floor - high, across + 0.5, high);
      context.fillStyle = css("--accent"); context.fillRect(from, floor - high - 1, across + 0.5, 1.5);
    });
    context.font = `12px ${css("--sans")}`; context.textBaseline = "middle"; context.textAlign = "right"; context.fillStyle = css("--quiet");
    context.fillText("high", left - 8, 8); context.fillText("low", left - 8, TALL - 8);
    context.fillText(most.toPrecision(2), left - 8, TALL + 14); context.fillText("0", left - 8, floor);
    context.fillStyle = css("--faint"); context.fillRect(left, floor, width() - left, 1);
    seconds(context, floor + 15);
    if (state.row !== null && wordOf(state.row) >= 0) {
      const [, start, end] = F.words[wordOf(state.row)];
      context.strokeStyle = css("--accent"); context.lineWidth = 2; context.strokeRect(x(start), 1, Math.max(2, x(end) - x(start)), TALL - 2);
    }
    const player = $("player");
    if (player && (player.currentTime > 0 || !player.paused)) { context.fillStyle = css("--accent"); context.fillRect(x(player.currentTime) - 1, 0, 2, floor); }
  }
  function seconds(context, y) {
    const step = [0.1, 0.2, 0.5, 1, 2, 5, 10].find((one) => (one / heard) * width() > 64) || 30;
    context.fillStyle = css("--quiet");
    for (let n = 0; n * step <= heard; n++) {
      const at = x(n * step);
      context.textAlign = n === 0 ? "left" : at > width() - 30 ? "right" : "center";
      context.fillText(`${+(n * step).toFixed(1)} s`, n === 0 ? left : Math.min(at, width() - 2), y);
    }
  }
  function sentence(seen) {
    const best = seen.indexOf(Math.max(...seen)), where = `${(best * F.place).toFixed(2)} s (weight ${seen[best].toFixed(3)})`;
    const index = state.row === null ? -1 : wordOf(state.row);
    $("told").textContent = state.row === null ? (F.words.length ? `On average over all words, the place at ${where} was looked at most.` : `The model wrote no words. For the end it looked most at ${where}.`)
      : index < 0 ? `For the end it looked most at ${where}.` : `“${F.words[index][0]}”, said from ${F.words[index][1].toFixed(2)} to ${F.words[index][2].toFixed(2)} s, looked most at ${where}.`;
    $("sound").setAttribute("aria-label", `Spectrogram of ${F.seconds.toFixed(1)} seconds, and below it the weights. ${$("told").textContent}`);
  }
  const point = (index) => { if (!state.pinned) { state.row = index === null ? null : F.words[index][3][0]; show(); } };
  function jump(to) {
    const player = $("player");
    if (player) { player.currentTime = to; follow(); }
  }
  /* While it plays: the line moves, and the word that is said lights up. */
  function follow() {
    const player = $("player"), t = player.currentTime, said = player.paused && !t ? -1 : F.words.findIndex(([, start, end]) => t >= start && t < end);
    [...$("words").children].forEach((button, i) => { button.classList.toggle("now", i === said); if (i === said) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current"); });
    if (state.view === "scene" && kept) paint();
    if (!player.paused) requestAnimationFrame(follow);
  }
  function parts() {
    const canvas = make("canvas", { id: "sound", onclick: (event) => jump(Math.max(0, ((event.clientX - $("sound").getBoundingClientRect().left - left) / (width() - left - 2)) * heard)) });
    canvas.setAttribute("role", "img");
    const words = make("div", { id: "words", onpointerleave: () => point(null) }, ...F.words.map(([text, start], i) => {
      const button = make("button", { type: "button", textContent: text, title: `${start.toFixed(2)} s` });
      button.onpointerenter = button.onfocus = () => point(i);
      button.onclick = () => { const same = state.pinned && wordOf(state.row) === i; Object.assign(state, { row: same ? null : F.words[i][3][0], pinned: !same }); show(); if (!same) jump(start); };
      return button;
    }));
    const told = make("p", { id: "told", className: "told" });
    told.setAttribute("aria-live", "polite");
    let player;
    if (F.wav) {
      player = make("audio", { id: "player", controls: true, src: F.wav, preload: "auto" });
      player.onplay = player.onseeked = player.onpause = player.onended = follow;
    } else player = make("p", { className: "note", id: "too-long", textContent: `The recording lasts ${F.seconds.toFixed(0)} s. Sound of up to ${F.longest} s is put into a page, so this one cannot be played here.` });
    return [player, words, make("div", { className: "along" }, canvas), make("div", { id: "scale-here" }), told];
  }
  const how = () => "Above the spectrogram, grey, the louder the darker (in the dark, the lighter); below it how much each moment was looked at for a word. Height and colour both tell the weight. Point at a word for its own; a click holds it and goes to its place in the sound.";
  return { parts, draw, how };
};
