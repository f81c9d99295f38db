// A pad to draw on.
const pads = new Set();
class Pad {
  constructor(canvas, changed) {
    Object.assign(this, { canvas, changed, strokes: [], current: null });
    canvas.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      e.preventDefault();
      canvas.focus({ preventScroll: true });
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
    canvas.addEventListener("keydown", (e) => {
      if ((e.ctrlKey || e.metaKey) && e.key === "z" || e.key === "Backspace") { e.preventDefault(); this.undo(); }
      if (e.key === "Delete") this.clear();
    });
    pads.add(this);
    new ResizeObserver(() => this.paint()).observe(canvas);
  }
  at(e) {
    const box = this.canvas.getBoundingClientRect();
    return [(e.clientX - box.left) / box.width, (e.clientY - box.top) / box.height];
  }
  get empty() { return this.strokes.length === 0; }
  set(strokes) { this.strokes = strokes; this.paint(); this.changed(false); }
  clear() { this.set([]); }
  undo() { this.set(this.strokes.slice(0, -1)); }
  paint() {
    const { canvas } = this, box = canvas.getBoundingClientRect(), sharp = window.devicePixelRatio || 1;
    if (box.width === 0) return;
    canvas.width = canvas.height = Math.round(box.width * sharp);
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--stroke");
    trace(canvas.getContext("2d"), this.strokes, ([x, y]) => [x * canvas.width, y * canvas.width], canvas.width * 0.035, ink);
  }
  image() { return drawingImage(this.strokes); }
}
// Ink has the colour of the scheme; nothing else repaints a canvas when the scheme changes.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => requestAnimationFrame(() => pads.forEach((pad) => pad.paint())));

// As Omniglot has its characters: 105 pixels, black on white, thin, the ink in the middle.
function drawingImage(strokes) {
  const canvas = make("canvas", { width: 105, height: 105 }), g = canvas.getContext("2d");
  g.fillStyle = "#fff";
  g.fillRect(0, 0, 105, 105);
  const all = strokes.flat(), xs = all.map((p) => p[0]), ys = all.map((p) => p[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = 72 / Math.max(right - left, bottom - top, 0.15);
  const place = ([x, y]) => [52.5 + (x - (left + right) / 2) * scale, 52.5 + (y - (top + bottom) / 2) * scale];
  trace(g, strokes, place, 2.6, "#000");
  return canvas.toDataURL("image/png");
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
