/* How to decode: a control for each setting that a model's recipe has and people want to change. */
const OPTIONS = {
  temperature: { label: "Temperature", hint: "0: the likeliest", min: 0, max: 2, step: 0.1 },
  max_length: { label: "Length", hint: "most tokens", min: 1, max: 4096, step: 1 },
  seed: { label: "Seed", hint: "the same draws again", step: 1 },
  beam: { label: "Beam", hint: "hypotheses at a time", min: 1, max: 32, step: 1 },
  n_best: { label: "Show the best", hint: "so many of them", min: 1, max: 10, step: 1 },
  k: { label: "Guesses", hint: "the likeliest so many", min: 1, max: 50, step: 1 },
};

function options(card, names) {
  const known = names.filter((name) => name in card.decode);
  const inputs = Object.fromEntries(known.map((name) => {
    const { label, hint, ...bounds } = OPTIONS[name];
    return [name, make("input", { type: "number", placeholder: usual(card, name), ...bounds, name })];
  }));
  const fields = known.map((name) => field(OPTIONS[name].label, inputs[name], OPTIONS[name].hint));
  return {
    box: make("fieldset", { className: "options", hidden: !known.length }, make("legend", { textContent: "Options" }), ...fields),
    inputs,
    check() {
      for (const [name, input] of Object.entries(inputs)) {
        if (!input.validity.valid) { input.focus(); throw new Refused(`${OPTIONS[name].label}: ${input.validationMessage}`); }
      }
    },
    given() {
      this.check();
      const set = Object.entries(inputs).filter(([, input]) => input.value !== "");
      const given = Object.fromEntries(set.map(([name, input]) => [name, Number(input.value)]));
      if (given.n_best > 1 && "beam" in card.decode) given.beam = Math.max(given.n_best, given.beam || card.decode.beam);
      return given;
    },
  };
}
const usual = (card, name) => name === "seed" ? "" : String(name === "temperature" && card.decode.strategy !== "sample" ? 0 : card.decode[name]);
