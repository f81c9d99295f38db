// Tabs, and what happens when the page opens and closes.
for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[role=tab]")) {
      other.setAttribute("aria-selected", other === tab);
      $(other.getAttribute("aria-controls")).hidden = other !== tab;
    }
  });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("resize")));
window.addEventListener("pagehide", () => {
  for (const live of [drawTask, photoTask]) {
    if (live.task) fetch("/v1/tasks/" + live.task.id, { method: "DELETE", keepalive: true, headers: token ? { Authorization: "Bearer " + token } : {} });
  }
});
call("GET", "/v1/models").then((answer) => {
  models = answer.models;
  $("model").replaceChildren(...models.map((m) => make("option", { value: m.name, textContent: m.name })));
  $("model-row").hidden = models.length < 2;
  showModelNote();
  showReliability();
}).catch((error) => { $("reliability-body").textContent = error.message; });
