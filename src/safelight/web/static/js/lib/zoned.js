// Forms with a moment in them mean it by the reader's clock; without scripts it is UTC.
for (const form of document.querySelectorAll("form[data-zoned]")) {
  form.querySelector("[data-zone]").hidden = true;
  form.addEventListener("submit", () => {
    form.elements.zone.value = new Date(form.elements.at.value).getTimezoneOffset();
  });
}
