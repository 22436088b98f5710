// What a page cannot do by itself: say that a person sees it, keep what is typed, and ask for the questions that follow from it.
"use strict";

const form = document.querySelector("form[data-kept]");

// seen calls what once the page is visible to somebody: not while it is fetched ahead or waits in another tab.
function seen(what) {
  if (document.prerendering) return document.addEventListener("prerenderingchange", () => seen(what), { once: true });
  if (document.visibilityState === "visible") return what();
  document.addEventListener("visibilitychange", () => seen(what), { once: true });
}

// place gives the form the questions of a page's part, in its order. A question that is there already stays as it is, with what is typed
// into it. One that goes is kept, and comes back with what was typed. It returns whether one went or came, and whether one came back.
const gone = new Map();
function place(text) {
  const box = document.getElementById("questions");
  const wanted = [...new DOMParser().parseFromString(text, "text/html").querySelectorAll("[data-question]")];
  const ids = new Set(wanted.map((e) => e.dataset.question)), there = new Map();
  let changed = false, back = false;
  for (const e of [...box.children]) {
    const id = e.dataset.question;
    if (ids.has(id)) {
      there.set(id, e);
      continue;
    }
    const before = e.contains(document.activeElement) && e.previousElementSibling;
    e.remove();
    if (before) before.querySelector(":checked, [id^=a-]").focus(); // else a keyboard would begin at the top again
    gone.set(id, e);
    changed = true;
  }
  let at = box.firstElementChild;
  for (const e of wanted) {
    const id = e.dataset.question;
    if (there.has(id)) {
      at = there.get(id).nextElementSibling;
      continue;
    }
    back = gone.has(id) || back;
    box.insertBefore(gone.get(id) || document.importNode(e, true), at);
    gone.delete(id);
    changed = true;
  }
  return { changed, back };
}

function start() {
  const path = form.getAttribute("action"), status = document.getElementById("status");
  const body = () => new URLSearchParams(new FormData(form));
  const typing = 1200; // ms without a key until what was typed is kept
  let kept = body().toString(), timer = 0, busy = false, more = false, sent = false;

  function say(text) {
    if (status.textContent !== text) status.textContent = text;
  }

  function later(ms) {
    clearTimeout(timer);
    timer = setTimeout(keep, ms);
  }

  // keep sends the form as a draft, one at a time, until the server has what is in it.
  async function keep() {
    const now = body();
    more = busy; // it goes on when the answer is here
    if (busy || sent || now.toString() === kept) return;
    busy = true;
    let again = typing;
    try {
      const answer = await fetch(path + "/draft", { method: "POST", body: now });
      if (answer.ok) {
        const text = await answer.text();
        const typed = body().toString() !== now.toString();
        const { changed, back } = place(text);
        kept = typed || back ? "" : body().toString();
        if (back || more) again = 0; // what came back may lead to other questions
        say(changed ? form.dataset.asked : form.dataset.kept);
      } else if ([404, 409, 410].includes(answer.status)) {
        if (!sent) location.reload();
        return;
      } else {
        again = 1000 * (Number(answer.headers.get("Retry-After")) || 30);
        say(form.dataset.notKept);
      }
    } catch {
      again = 10000;
      say(form.dataset.notKept);
    } finally {
      busy = false;
    }
    if (body().toString() !== kept) later(again);
  }

  form.addEventListener("input", (e) => later(e.target.matches("[type=radio], [type=checkbox]") ? 0 : typing));
  form.addEventListener("change", () => later(0)); // a field that was typed into is left
  form.addEventListener("submit", (e) => {
    if (sent) return e.preventDefault(); // a second click
    sent = true;
    clearTimeout(timer);
    setTimeout(() => { sent = false; }, 8000); // the page is still here: let it be sent again
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState !== "hidden" || sent || body().toString() === kept) return;
    navigator.sendBeacon(path + "/draft", body());
  });
  seen(() => fetch(path + "/opened", { method: "POST", keepalive: true }).catch(() => {}));
}

addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
const above = document.getElementById("above");
if (above) {
  above.focus();
  above.addEventListener("click", (e) => {
    const link = e.target.closest("a"), field = link && document.getElementById(link.hash.slice(1));
    if (!field) return;
    e.preventDefault();
    field.closest("[data-question]").scrollIntoView();
    field.focus({ preventScroll: true });
  });
}
if (form) start();
