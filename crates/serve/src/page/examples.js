// Examples to try: drawn here, by rules and by a hand that shakes the same way each time.
function dice(seed) {
  let state = seed * 2654435761 >>> 0 || 1;
  return () => { state ^= state << 13; state ^= state >>> 17; state ^= state << 5; state >>>= 0; return state / 4294967296; };
}
const arc = (x, y, r, from, to) => Array.from({ length: 25 }, (_, i) => { const a = from + (to - from) * i / 24; return [x + r * Math.cos(a), y + r * Math.sin(a)]; });
// Strokes in a unit square.
const SIGNS = {
  sail: [[[.5, .12], [.5, .72]], [[.5, .14], [.82, .62], [.5, .62]], [[.18, .74], [.34, .88], [.68, .88], [.84, .74], [.18, .74]]],
  snail: [Array.from({ length: 40 }, (_, i) => { const a = i / 39 * 13, r = .03 + .024 * a; return [.5 + r * Math.cos(a), .45 + r * Math.sin(a)]; }), [[.15, .86], [.85, .86]]],
  fork: [[[.5, .9], [.5, .12]], [[.24, .14], [.24, .34]].concat(arc(.5, .34, .26, Math.PI, 0)).concat([[.76, .14]])],
  key: [arc(.3, .32, .18, 0, 6.4), [[.44, .44], [.84, .86]], [[.7, .72], [.8, .62]]],
};
// Another drawing of the same: turned, leant and shaken a little.
function byHand(strokes, seed) {
  const random = dice(seed), lean = .16 * (random() - .5), turn = .16 * (random() - .5), wide = .92 + .16 * random();
  return strokes.map((stroke) => {
    const push = [.03 * (random() - .5), .03 * (random() - .5)], wave = 6.28 * random();
    return stroke.map(([x, y], i) => {
      const u = (x - .5) * wide + lean * (y - .5), v = y - .5;
      const at = [.5 + u - turn * v + push[0] + .008 * Math.sin(wave + i), .5 + v + turn * u + push[1] + .008 * Math.cos(wave + 1.7 * i)];
      return at.map((c) => Math.min(.97, Math.max(.03, c)));
    });
  });
}
function exampleDrawings() {
  const signs = Object.entries(SIGNS);
  characters.load(signs.map(([name, strokes], k) => ({ name, strokes: byHand(strokes, 3 * k + 1),
    examples: [{ name: "a drawing of " + name, image: drawingImage(byHand(strokes, 3 * k + 2)) }] })));
  query.set(byHand(SIGNS.snail, 99));
  showTab("draw");
  hint("draw", "Change the drawing, or draw another sign: the answer follows.");
}

// Pictures of fruit on a table: soft light from one side, never twice the same.
const blob = (g, x, y, r, light, dark) => {
  const shade = g.createRadialGradient(x - r * .35, y - r * .4, r * .1, x, y, r);
  shade.addColorStop(0, light);
  shade.addColorStop(1, dark);
  g.fillStyle = shade;
  g.beginPath();
  g.arc(x, y, r, 0, 7);
  g.fill();
};
const line = (g, points, width, colour) => trace(g, [points], (p) => p, width, colour);
const FRUIT = {
  apple(g, random) {
    const red = 130 + 90 * random();
    blob(g, -16, 4, 52, `rgb(${red + 60} 90 70)`, `rgb(${red - 30} 20 25)`);
    blob(g, 18, 4, 52, `rgb(${red + 50} 80 60 / .9)`, `rgb(${red - 40} 15 20)`);
    line(g, [[0, -40], [4, -58], [12, -70]], 6, "#4a3220");
  },
  banana(g, random) {
    const tone = 190 + 40 * random();
    for (let w = 46; w > 4; w -= 6) line(g, arc(0, -60, 92, .35, 2.75), w, `rgb(${tone + 25 - w * .9} ${tone - 10 - w} ${40 + (46 - w)})`);
    line(g, arc(0, -60, 92, 2.72, 2.86), 12, "#5b4a1e");
  },
  grapes(g, random) {
    for (let row = 0; row < 4; row++) for (let i = 0; i <= 3 - row; i++) blob(g, (i - (3 - row) / 2) * 34 + 6 * (random() - .5), row * 29 - 38 + 5 * (random() - .5), 20, "#b79ad8", "#3c1f63");
    line(g, [[0, -56], [-4, -76]], 6, "#5a4a25");
  },
  mug(g) {
    line(g, arc(46, 0, 26, -1.4, 1.4), 11, "#3f6f8f");
    const side = g.createLinearGradient(-46, 0, 46, 0);
    ["#8fc0dd", "#5b95b8", "#2d5671"].forEach((c, i) => side.addColorStop(i / 2, c));
    g.fillStyle = side;
    g.fillRect(-46, -52, 92, 108);
    g.fillStyle = "#20323d";
    g.beginPath();
    g.ellipse(0, -52, 46, 13, 0, 0, 7);
    g.fill();
  },
};
function picture(kind, seed) {
  const random = dice(seed), canvas = make("canvas", { width: 240, height: 240 }), g = canvas.getContext("2d");
  const table = g.createLinearGradient(0, 0, 240, 240), warm = 225 + 20 * random();
  table.addColorStop(0, `rgb(${warm + 8} ${warm + 5} ${warm})`);
  table.addColorStop(1, `rgb(${warm - 22} ${warm - 28} ${warm - 38})`);
  g.fillStyle = table;
  g.fillRect(0, 0, 240, 240);
  g.translate(120 + 24 * (random() - .5), 124 + 24 * (random() - .5));
  g.rotate(.7 * (random() - .5));
  const size = .95 + .35 * random();
  g.scale(size, size);
  g.save();
  Object.assign(g, { shadowColor: "rgb(60 45 30 / .35)", shadowBlur: 24, shadowOffsetX: 10, shadowOffsetY: 14 });
  FRUIT[kind](g, random);
  g.restore();
  return canvas.toDataURL("image/jpeg", .9);
}
// A sign written on paper with a felt pen, in light that is not even: what a model of drawings can read.
function note(kind, seed) {
  const random = dice(seed), canvas = make("canvas", { width: 240, height: 240 }), g = canvas.getContext("2d");
  const paper = g.createLinearGradient(0, 0, 240 * random(), 240), light = 246 - 6 * random();
  paper.addColorStop(0, `rgb(${light} ${light - 1} ${light - 6})`);
  paper.addColorStop(1, `rgb(${light - 22} ${light - 24} ${light - 32})`);
  g.fillStyle = paper;
  g.fillRect(0, 0, 240, 240);
  const size = 150 + 40 * random(), left = (240 - size) * random(), top = (240 - size) * random();
  trace(g, byHand(SIGNS[kind], seed), ([x, y]) => [left + size * x, top + size * y], 6, "#1c2a4a");
  return canvas.toDataURL("image/jpeg", .9);
}
function examplePhotos() {
  const colour = models.find((m) => m.image.channels === 3);
  const [kinds, paint, others] = colour ? [["apple", "banana", "grapes"], picture, ["banana", "apple", "mug", "grapes"]]
    : [["sail", "snail", "fork"], note, ["snail", "sail", "key", "fork"]];
  if (colour) { $("model").value = colour.name; showModelNote(); }
  asked.splice(0, asked.length, ...others.map((kind, k) => ({ name: `another ${kind}`, image: paint(kind, 41 + k) })));
  groups.load(kinds.map((name, k) => ({ name, examples: [1, 2, 3].map((i) => ({ name: `${name} ${i}`, image: paint(name, 5 * k + i) })) })));
  showTab("images");
  hint("images", "Pictures painted by the program. Put photos of your own into classes of your own.");
}
