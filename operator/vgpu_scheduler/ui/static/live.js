// Fetches the page's own address again when the server says that it may show something else, and puts its content in.
"use strict";

// After each answer it pauses for several times as long as the answer took, so that open pages leave the server its time.
const PAUSE = 4, SHORTEST = 250, LONGEST = 30000, AFTER_ERROR = 2000, MOST_REFUSALS = 3;
let asked = 0, shown = 0, refusals = 0, busy = false;

const editing = () => document.activeElement && document.activeElement.matches("main input, main select, main textarea");

const refresh = async () => {
  if (busy || asked === shown || document.hidden || editing()) return;
  busy = true;
  const wanted = asked, began = performance.now();
  let pause = SHORTEST;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    refusals = answer.status === 503 ? refusals + 1 : 0;
    if (0 < refusals && refusals <= MOST_REFUSALS) throw new Error("it is busy"); // what is shown stays for now
    const read = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    pause = Math.min(Math.max(PAUSE * (performance.now() - began), SHORTEST), LONGEST);
    const main = document.querySelector("main");
    const focused = document.activeElement && document.activeElement.getAttribute("href");
    main.querySelectorAll("details[id]").forEach((before) => {
      const after = read.querySelector(`#${before.id}`);
      if (after) after.open = before.open;
    });
    if (main.innerHTML !== read.innerHTML) main.replaceChildren(...read.childNodes);
    if (focused) [...main.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    if (refusals) throw new Error("what is shown is why it refuses");
    shown = wanted;
    prepare();
  } catch {
    pause = Math.max(pause, AFTER_ERROR);
  }
  setTimeout(() => {
    busy = false;
    refresh();
  }, pause);
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
