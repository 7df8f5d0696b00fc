// Menus are <details class="menu">, which open without a script. With one they close as menus do: on
// Escape, with the focus back where it came from, and on a click elsewhere.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = document.activeElement?.closest("details.menu[open]") ?? anyOpen();
  if (!open) return;
  event.preventDefault();
  open.open = false;
  open.querySelector("summary").focus();
});

document.addEventListener("pointerdown", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

function anyOpen() {
  return document.querySelector("details.menu[open]");
}
