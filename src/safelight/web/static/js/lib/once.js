// A form that is on its way is not sent again by a second click. Where its reader comes back to the page
// as it was left, it can be.
export function once(event) {
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "true";
}

addEventListener("pageshow", ({ persisted }) => {
  if (!persisted) return;
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
