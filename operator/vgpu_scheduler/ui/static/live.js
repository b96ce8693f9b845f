// Fetches the page's own address again when the server says that it may show something else, and puts its content in.
"use strict";

let asked = 0, shown = 0, busy = false;

const editing = () => document.activeElement && document.activeElement.matches("main input, main select, main textarea");

const refresh = async () => {
  if (busy || asked === shown || document.hidden || editing()) return;
  busy = true;
  const wanted = asked;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    const read = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    const main = document.querySelector("main");
    const focused = document.activeElement && document.activeElement.getAttribute("href");
    main.querySelectorAll("details[id]").forEach((before) => {
      const after = read.querySelector(`#${before.id}`);
      if (after) after.open = before.open;
    });
    if (main.innerHTML !== read.innerHTML) main.replaceChildren(...read.childNodes);
    if (focused) [...main.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    shown = wanted;
    prepare();
  } catch {
    setTimeout(refresh, 2000);
  } finally {
    busy = false;
  }
  if (asked !== shown) setTimeout(refresh, 250);
};

const prepare = () => document.querySelectorAll("button.copy").forEach((button) => {
  button.hidden = false;
  button.onclick = () => navigator.clipboard.writeText(button.previousElementSibling.textContent);
});

const follow = () => {
  const events = new EventSource("/events");
  events.onmessage = (event) => {
    const first = asked === 0;
    asked = Number(event.data);
    if (first && document.body.dataset.generation === event.data) shown = asked;
    refresh();
  };
  events.onerror = () => {
    if (events.readyState !== EventSource.CLOSED) return; // it asks again by itself
    asked = shown + 1; // it is refused: the page's own address says why, such as that the session has ended
    refresh();
    setTimeout(() => document.querySelector("main input[name=token]") || follow(), 15000);
  };
};

if (document.body.dataset.generation) {
  document.addEventListener("visibilitychange", refresh);
  document.addEventListener("focusout", () => setTimeout(refresh, 0));
  follow();
}
prepare();
