/* A file: an image, a recording (or one made here), a table; dropped, chosen or pasted. */
const MEDIA = [[".wav", "recording"], [".png", "image"], [".csv", "table"]];
function fileForm(card) {
  const media = (MEDIA.find(([suffix]) => card.suffixes.includes(suffix)) || ["", "file"])[1], line = problemLine();
  const picker = make("input", { type: "file", className: "unseen", id: newId("file"), accept: card.suffixes.map((one) => one.slice(one.lastIndexOf("."))).join(",") });
  const preview = make("div", { className: "preview" }), name = make("p", { className: "note" });
  const shortest = card.suffixes.slice(0, 4).map((one) => one.slice(1)).join(", ") + (card.suffixes.length > 4 ? " and others" : "");
  const drop = make("label", { className: "drop", for: picker.id }, make("b", { textContent: `Drop ${article(media)} here` }), make("span", { textContent: `or choose a file: ${shortest}` }));
  const record = media === "recording" ? recordButton(line, (file) => take(file)) : null;
  const chosen = options(card, ["beam", "n_best", "k"]), result = resultBox(), look = looking(card);
  const go = make("button", { className: "main", type: "submit", textContent: "Ask", hidden: true });
  const form = make("form", { className: "ask", noValidate: true }, picker, drop, make("div", { className: "row" }, record, name), chosen.box, make("div", { className: "row" }, go), line);
  const job = new Job({ line, buttons: [go], result });
  let file = null, context = {};

  async function take(given) {
    if (!given) return;
    await job.start(async () => {
      file = await readable(given, card, media);
      context = await previewed(file, media, preview);
      name.textContent = `${file.name}, ${bytes(file.size)}`;
      go.hidden = false; drop.classList.add("small");
    });
    if (file && !line.textContent) form.requestSubmit();
  }
  picker.onchange = () => { take(picker.files[0]); picker.value = ""; };
  form.addEventListener("paste", (event) => { if (event.clipboardData.files.length) take(event.clipboardData.files[0]); });
  form.onsubmit = (event) => {
    event.preventDefault();
    job.start(async (signal) => {
      const sent = file, decode = chosen.given();
      const told = await predicted(card, { file: sent, decode }, signal);
      result.replaceChildren(...shownRecord(told, context));
      look.at(() => ({ file: sent, target: card.target && Object.keys(decode).length ? told.text : "" }));
    });
  };
  const whole = make("div", {}, form, make("div", { className: `beside-${media}` }, preview, result), look.box);
  droppable(whole, drop, take);
  return whole;
}

for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());  // else a file beside it replaces the page
function droppable(zone, mark, take) {
  for (const kind of ["dragenter", "dragover"]) zone.addEventListener(kind, (event) => { event.preventDefault(); mark.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) zone.addEventListener(kind, () => mark.classList.remove("over"));
  zone.addEventListener("drop", (event) => { event.preventDefault(); take(event.dataTransfer.files[0]); });
}

/* What the server reads as it is; of sounds also what only the browser can read. */
async function readable(file, card, media) {
  const most = 0.99 * card.bounds.body;  // the rest is for the form around it
  if (file.size > most) throw new Refused(`${file.name} has ${bytes(file.size)}; this server takes up to ${bytes(most)}.`);
  if (card.suffixes.some((suffix) => file.name.toLowerCase().endsWith(suffix))) return file;
  if (media === "recording") return wavOf(file, file.name.replace(/\.\w+$/, "") + ".wav");
  throw new Refused(`${file.name} is no ${media} that this model reads: ${listed(card.suffixes)}.`);
}

const lastUrls = new Map();
async function previewed(file, media, box) {
  URL.revokeObjectURL(lastUrls.get(box));
  const url = URL.createObjectURL(file);
  lastUrls.set(box, url);
  if (media === "image") {
    const image = make("img", { alt: `The image ${file.name}`, src: url, onerror: () => image.remove(), onload: () => image.classList.toggle("tiny", image.naturalWidth < 100) });
    box.replaceChildren(image);
    return {};
  }
  if (media === "recording") {
    const sound = make("audio", { controls: true, src: url });
    sound.setAttribute("aria-label", `The recording ${file.name}`);
    box.replaceChildren(sound);
    return { sound };
  }
  box.replaceChildren();
  return media === "table" ? { table: await tableOf(file).catch(() => null) } : {};
}

function recordButton(line, take) {
  const button = make("button", { type: "button", textContent: "Record", hidden: !canRecord() });
  let end = null, clock = 0;
  button.onclick = async () => {
    line.textContent = "";
    try {
      if (end) {
        const ending = end;
        end = null; clearInterval(clock); button.textContent = "Record"; button.classList.remove("on");
        take(await ending());
        return;
      }
      end = await recorder();
      const began = Date.now(), tick = () => { button.textContent = `Stop recording (${Math.round((Date.now() - began) / 1000)} s)`; };
      tick(); clock = setInterval(tick, 500); button.classList.add("on");
    } catch (problem) { line.textContent = problem instanceof Refused ? problem.message : "The microphone cannot be used."; }
  };
  return button;
}
