// The second tab: photos put into classes.
// Large photos are made smaller here: the network sees few pixels, and phones have slow uplinks.
async function readPhoto(file) {
  const url = URL.createObjectURL(file);
  try {
    const image = make("img", { src: url });
    await image.decode();
    const scale = Math.min(1, 400 / Math.min(image.naturalWidth, image.naturalHeight));
    const canvas = make("canvas", { width: Math.round(image.naturalWidth * scale), height: Math.round(image.naturalHeight * scale) });
    const g = canvas.getContext("2d");
    g.fillStyle = "#fff";
    g.fillRect(0, 0, canvas.width, canvas.height);
    g.imageSmoothingQuality = "high";
    g.drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/jpeg", 0.92);
  } catch { throw new Error(`${file.name} is no image that this browser can read`); }
  finally { URL.revokeObjectURL(url); }
}
function dropZone(zone, take) {
  const picker = make("input", { type: "file", accept: "image/*", multiple: true, hidden: true });
  zone.after(picker);
  zone.addEventListener("click", () => picker.click());
  zone.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); picker.click(); } });
  zone.addEventListener("dragover", (e) => { e.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (e) => { e.preventDefault(); zone.classList.remove("over"); take([...e.dataTransfer.files]); });
  picker.addEventListener("change", () => { take([...picker.files]); picker.value = ""; });
}
// A photo dropped beside a zone would otherwise take the place of the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (e) => e.preventDefault());
const groups = [];
const photoTask = new LiveTask(
  () => groups.filter((g) => g.images.length).map((g) => ({ name: g.name.value.trim() || g.name.placeholder, images: g.images })),
  () => $("model").value || undefined,
  (error) => {
    const task = photoTask.task;
    warn($("image-warning"), task ? task.warnings : []);
    $("image-status").className = error ? "bad" : "quiet";
    $("image-status").textContent = error ? error.message : !task ? "Two classes at least are needed."
      : (task.calibration.held_out ? `Left out and predicted by the others, ${task.calibration.held_out.right} of ${task.calibration.held_out.of} photos were right. ` : "") + task.calibration.said;
    if (task) askPhotos();
  },
);
function addClass() {
  const name = make("input", { type: "text", placeholder: "class " + (groups.length + 1), maxLength: 80 });
  name.setAttribute("aria-label", "Name of class " + (groups.length + 1));
  const thumbs = make("div", { className: "thumbs" });
  const zone = make("div", { className: "drop", textContent: "Drop or tap", tabIndex: 0 });
  zone.setAttribute("role", "button");
  const group = { name, images: [] };
  const card = make("div", { className: "card" }, name, zone, thumbs);
  $("image-cards").append(card);
  dropZone(zone, async (files) => {
    for (const file of files) {
      try {
        const image = await readPhoto(file);
        group.images.push(image);
        const thumb = make("button", { className: "thumb", title: "Remove this photo", onclick: () => {
          group.images.splice(group.images.indexOf(image), 1);
          thumb.remove();
          photoTask.touch();
        } }, make("img", { src: image, alt: file.name }));
        thumbs.append(thumb);
      } catch (error) { $("image-status").textContent = error.message; $("image-status").className = "bad"; }
    }
    photoTask.touch();
  });
  name.addEventListener("change", () => photoTask.touch());
  groups.push(group);
}
addClass();
addClass();
$("add-class").onclick = addClass;
$("model").onchange = () => { showModelNote(); photoTask.touch(); };

const asked = [];
dropZone($("ask-images"), async (files) => {
  for (const file of files) {
    try { asked.unshift({ name: file.name, image: await readPhoto(file), row: null }); }
    catch (error) { asked.unshift({ name: file.name, image: "", row: { error: error.message } }); }
  }
  askPhotos();
});
async function askPhotos() {
  const open = asked.filter((a) => a.image);
  if (open.length === 0) { showPhotos(); return; }
  try {
    for (let i = 0; i < open.length; i += 20) {
      const part = open.slice(i, i + 20), rows = await photoTask.predict(part.map((a) => a.image), 3);
      part.forEach((a, k) => { a.row = rows ? rows[k] : { error: "Put photos into two classes first." }; });
    }
  } catch (error) { open.forEach((a) => { a.row = { error: error.message }; }); }
  showPhotos();
}
function showPhotos() {
  const examples = photoTask.task ? photoTask.classes() : [];
  const flat = examples.flatMap((g) => g.images);
  $("results").replaceChildren(...asked.filter((a) => a.row).map(({ name, image, row }) => {
    const body = make("div");
    if (row.error) body.append(make("p", { className: "bad", textContent: `${name}: ${row.error}` }));
    else {
      const bars = make("div", { className: "bars" });
      showBars(bars, row);
      const near = make("div", { className: "near" }, ...row.nearest.map((n) => make("figure", {},
        make("img", { src: flat[n.index] || "", alt: n.example }), `${n.class} ${n.kernel.toFixed(2)}`)));
      body.append(make("p", { className: "answer", textContent: verdict(row) }), bars,
        make("p", { className: "quiet", textContent: said(row) }),
        make("p", { className: "quiet", textContent: "Nearest examples and their kernel values:" }), near);
    }
    return make("div", { className: "result" }, image ? make("img", { src: image, alt: name }) : make("span"), body);
  }));
}
