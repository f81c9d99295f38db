// The third tab: how sure the model is, against how often it is right.
let models = [];
function showModelNote() {
  const model = models.find((m) => m.name === $("model").value) || models[0];
  const { size, channels } = model.image;
  $("model-note").textContent = `It was trained on ${model.data.split(":")[0]} and sees ${size} × ${size} pixels${channels === 1 ? " of grey" : ""}; it does best on images of that kind.`;
}
function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
function reliabilityPlot(title, bins, ece) {
  const side = 240, left = 40, top = 24, x = (p) => left + p * side, y = (p) => top + (1 - p) * side;
  const plot = svg("svg", { viewBox: `0 0 ${left + side + 12} ${top + side + 40}`, role: "img", "aria-label": `${title}: ECE ${ece.toFixed(3)}` });
  plot.append(svg("text", { x: left, y: 14 }, `${title} — ECE ${ece.toFixed(3)}`));
  for (const tick of [0, .2, .4, .6, .8, 1]) {
    plot.append(svg("line", { class: "axis", x1: left, x2: left + side, y1: y(tick), y2: y(tick) }),
      svg("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, 100 * tick + " %"),
      svg("text", { x: x(tick), y: top + side + 16, "text-anchor": "middle" }, 100 * tick + " %"));
  }
  const total = bins.reduce((n, bin) => n + bin.count, 0);
  for (const bin of bins.filter((bin) => bin.count > 0)) {
    const bar = svg("rect", { class: "bar", x: x(bin.lower) + 1, width: Math.max(1, (bin.upper - bin.lower) * side - 2), y: y(bin.accuracy), height: bin.accuracy * side, opacity: 0.35 + 0.65 * Math.sqrt(bin.count / total) });
    bar.append(svg("title", {}, `said ${percent(bin.confidence)}, right ${percent(bin.accuracy)}, ${bin.count} answers`));
    plot.append(bar, svg("line", { class: "gap", x1: x(bin.lower) + 1, x2: x(bin.upper) - 1, y1: y(bin.confidence), y2: y(bin.confidence) }));
  }
  plot.append(svg("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
    svg("text", { x: left + side / 2, y: top + side + 34, "text-anchor": "middle" }, "confidence (line) and how often right (bar)"));
  return make("div", { className: "card" }, plot);
}
function showReliability() {
  $("reliability-body").replaceChildren(...models.flatMap((model) => {
    const t = model.test, heading = make("h2", { textContent: model.name });
    if (!t) return [heading, make("p", { textContent: "Nothing was measured of this model; siskin export measures it." })];
    const row = (name, m) => make("tr", {}, ...[name, percent(m.accuracy), m.ece.toFixed(3), m.mce.toFixed(3), m.nll.toFixed(3), m.brier.toFixed(3)].map((text) => make("td", { textContent: text })));
    const head = make("tr", {}, ...["", "right", "ECE", "MCE", "NLL", "Brier"].map((text) => make("th", { textContent: text })));
    return [heading,
      make("p", { textContent: `${t.episodes} tasks of ${t.way} classes with ${t.shot} example${t.shot === 1 ? "" : "s"} each: right in ${(100 * t.accuracy.mean).toFixed(2)} ± ${(100 * t.accuracy.spread).toFixed(2)} % (95 % interval).` }),
      make("div", { className: "plots" }, reliabilityPlot("As the model computes", t.raw_bins, t.raw.ece), reliabilityPlot(`As shown here, T = ${t.temperature.toFixed(3)}`, t.tuned_bins, t.tuned.ece)),
      make("div", { className: "scroll" }, make("table", {}, head, row("as computed", t.raw), row("as shown here", t.tuned)))];
  }));
}
