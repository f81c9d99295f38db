// The first tab: characters drawn on pads.
class Pad {
  constructor(canvas, changed) {
    Object.assign(this, { canvas, changed, strokes: [], current: null });
    canvas.addEventListener("pointerdown", (e) => {
      e.preventDefault();
      canvas.setPointerCapture(e.pointerId);
      this.current = [this.at(e)];
      this.strokes.push(this.current);
      this.paint();
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!this.current) return;
      for (const point of e.getCoalescedEvents ? e.getCoalescedEvents() : [e]) this.current.push(this.at(point));
      this.paint();
      this.changed(true);
    });
    const end = () => { if (this.current) { this.current = null; this.changed(false); } };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    new ResizeObserver(() => this.paint()).observe(canvas);
  }
  at(e) {
    const box = this.canvas.getBoundingClientRect();
    return [(e.clientX - box.left) / box.width, (e.clientY - box.top) / box.height];
  }
  get empty() { return this.strokes.length === 0; }
  clear() { this.strokes = []; this.paint(); this.changed(false); }
  undo() { this.strokes.pop(); this.paint(); this.changed(false); }
  paint() {
    const { canvas } = this, box = canvas.getBoundingClientRect(), sharp = window.devicePixelRatio || 1;
    if (box.width === 0) return;
    canvas.width = canvas.height = Math.round(box.width * sharp);
    const g = canvas.getContext("2d");
    trace(g, this.strokes, ([x, y]) => [x * canvas.width, y * canvas.width], canvas.width * 0.035, getComputedStyle(document.documentElement).getPropertyValue("--stroke"));
  }
  // As Omniglot has its characters: 105 pixels, black on white, thin, the ink in the middle.
  image() {
    const canvas = make("canvas", { width: 105, height: 105 }), g = canvas.getContext("2d");
    g.fillStyle = "#fff";
    g.fillRect(0, 0, 105, 105);
    const all = this.strokes.flat(), xs = all.map((p) => p[0]), ys = all.map((p) => p[1]);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const scale = 72 / Math.max(right - left, bottom - top, 0.15);
    const place = ([x, y]) => [52.5 + (x - (left + right) / 2) * scale, 52.5 + (y - (top + bottom) / 2) * scale];
    trace(g, this.strokes, place, 2.6, "#000");
    return canvas.toDataURL("image/png");
  }
}
function trace(g, strokes, place, width, colour) {
  Object.assign(g, { lineWidth: width, lineCap: "round", lineJoin: "round", strokeStyle: colour });
  for (const stroke of strokes) {
    g.beginPath();
    stroke.forEach((point, i) => g[i ? "lineTo" : "moveTo"](...place(point)));
    if (stroke.length === 1) g.lineTo(...place(stroke[0]));
    g.stroke();
  }
}

const characters = [];
const drawTask = new LiveTask(
  () => characters.map((c) => ({ name: c.name.value.trim() || c.name.placeholder, images: c.images() })).filter((c) => c.images.length),
  // Drawings are grey, so a model of grey images reads them; the server always has one.
  () => (models.find((m) => m.image.channels === 1) || {}).name,
  (error) => {
    $("draw-calibration").textContent = drawTask.task ? drawTask.task.calibration.said : "";
    if (error) showDrawError(error); else askDrawing();
  },
);
for (const letter of ["A", "B", "C", "D", "E"]) {
  const canvas = make("canvas", { className: "pad", tabIndex: 0 });
  const thumbs = make("div", { className: "thumbs" });
  const name = make("input", { type: "text", placeholder: letter, maxLength: 40 });
  name.setAttribute("aria-label", "Name of character " + letter);
  canvas.setAttribute("aria-label", "Draw character " + letter);
  const character = { name, kept: [], images: () => character.kept.concat(pad.empty ? [] : [pad.image()]) };
  const pad = new Pad(canvas, (moving) => { another.disabled = clear.disabled = pad.empty; if (!moving) drawTask.touch(); });
  const another = make("button", { textContent: "Another", disabled: true, onclick: () => { keep(pad.image()); pad.clear(); } });
  const clear = make("button", { textContent: "Clear", disabled: true, onclick: () => pad.clear() });
  const keep = (image) => {
    character.kept.push(image);
    const thumb = make("button", { className: "thumb", title: "Remove this example", onclick: () => {
      character.kept.splice(character.kept.indexOf(image), 1);
      thumb.remove();
      drawTask.touch();
    } }, make("img", { src: image, alt: "an example of " + letter }));
    thumbs.append(thumb);
  };
  name.addEventListener("change", () => drawTask.touch());
  characters.push(character);
  $("draw-cards").append(make("div", { className: "card" }, name, canvas, make("div", { className: "row" }, another, clear), thumbs));
}

const query = new Pad($("query"), () => askDrawing());
$("query-clear").onclick = () => query.clear();
$("query-undo").onclick = () => query.undo();
let asking = false, askAgain = false;
async function askDrawing() {
  if (asking) { askAgain = true; return; }
  asking = true;
  try {
    const rows = query.empty ? null : await drawTask.predict([query.image()], 0);
    if (!rows) {
      $("draw-answer").textContent = "…";
      $("draw-unsure").textContent = query.empty ? "Two characters at least, then draw here." : "Draw at least two characters above.";
      $("draw-bars").replaceChildren();
      delete $("draw-bars").dataset.names;
    } else {
      $("draw-answer").textContent = verdict(rows[0]);
      $("draw-unsure").textContent = said(rows[0]);
      $("draw-unsure").classList.remove("bad");
      showBars($("draw-bars"), rows[0]);
    }
  } catch (error) { showDrawError(error); }
  asking = false;
  if (askAgain) { askAgain = false; askDrawing(); }
}
function showDrawError(error) {
  $("draw-unsure").textContent = error.message;
  $("draw-unsure").classList.add("bad");
}
