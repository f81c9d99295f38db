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

// Photos inside the program, as tiles of one image: four of each class (the last to ask about), then two strangers.
const SHEET = { side: 112, columns: 4, classes: ["bricks", "grass", "gravel"], strangers: ["a cup", "a cat"] };
async function examplePhotos() {
  const sheet = make("img", { src: "/photos.jpg" });
  try { await sheet.decode(); } catch { return tell("The example photos did not arrive. Is the server still there?"); }
  const { side, columns, classes, strangers } = SHEET;
  const tile = (n) => {
    const canvas = make("canvas", { width: side, height: side });
    canvas.getContext("2d").drawImage(sheet, n % columns * side, Math.floor(n / columns) * side, side, side, 0, 0, side, side);
    return canvas.toDataURL("image/jpeg", .92);
  };
  const colour = models.find((m) => m.image.channels === 3);
  if ($("model").value !== "" && colour) $("model").value = colour.name;
  asked.splice(0, asked.length, ...classes.map((name, k) => ({ name: `more ${name}`, image: tile(4 * k + 3) })),
    ...strangers.map((name, k) => ({ name, image: tile(4 * classes.length + k) })));
  groups.load(classes.map((name, k) => ({ name, examples: [0, 1, 2].map((i) => ({ name: `${name} ${i + 1}`, image: tile(4 * k + i) })) })));
  showModelNote();
  showTab("images");
  hint("images", "Photos of bricks, grass and gravel. Put photos of your own into classes of your own.");
}
