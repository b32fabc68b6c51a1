/* What the model looked at when it gave this very answer: the viewer, in a frame that reaches nothing. */
const ASKED = "What did it look at?";
function looking(card) {
  const line = problemLine(), stage = make("div", { className: "stage" });
  const open = make("button", { type: "button", textContent: ASKED, "aria-expanded": "false" }), full = make("button", { type: "button", className: "plain", textContent: "Full screen", hidden: true });
  const which = make("select", { "aria-label": "Line", hidden: true, onchange: () => close() });
  const box = make("section", { className: "look", hidden: true, "aria-label": "What it looked at" }, make("div", { className: "row" }, open, which, full), line, stage);
  const job = new Job({ line, buttons: [open], result: stage });
  let request = null;
  const close = () => { job.stop(); stage.replaceChildren(); full.hidden = true; line.textContent = ""; set(open, { textContent: ASKED, "aria-expanded": "false" }); };
  full.onclick = () => stage.querySelector("iframe")?.requestFullscreen?.();
  open.onclick = () => stage.childElementCount ? close() : job.start(async (signal) => {
    stage.replaceChildren(make("p", { className: "lead", textContent: "Looking…" }));
    try { stage.replaceChildren(frameOf(await (await looked(card, { format: "page", ...request(which.selectedIndex) }, signal)).text())); }
    catch (problem) { stage.replaceChildren(); throw problem; }
    set(open, { textContent: "Close", "aria-expanded": "true" });
    full.hidden = !document.fullscreenEnabled;
    box.scrollIntoView({ block: "start" });
  });
  return {
    box,
    at(ask, lines = []) {
      request = ask; close();
      which.hidden = lines.length < 2;
      which.replaceChildren(...lines.map((text) => make("option", { textContent: text.length > 60 ? `${text.slice(0, 59)}…` : text })));
      box.hidden = !card.looks;
    },
    away() { close(); box.hidden = true; },
  };
}

function looked(card, { input, file, target, format }, signal) {
  const facts = { model: card.id, format, ...(target ? { target } : {}) };
  if (!file) return ask("v1/look", { ...facts, input }, signal);
  const form = new FormData();
  for (const [name, value] of Object.entries(facts)) form.append(name, value);
  form.append("file", file, file.name);
  return ask("v1/look", form, signal);
}

function frameOf(page) {
  const frame = make("iframe", { title: "What the model looked at", src: "frame" });
  frame.setAttribute("sandbox", "allow-scripts");
  const themed = page.replace("<html ", `<html data-theme="${theme()}" `);
  const ready = (event) => {
    if (event.source !== frame.contentWindow) return;
    removeEventListener("message", ready);
    frame.contentWindow.postMessage(themed, "*");
  };
  addEventListener("message", ready);
  return frame;
}
