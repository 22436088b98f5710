// The two things that a page cannot do by itself: say how far away an instant is, and stay up to date.
"use strict";

// far writes how far an instant is from now.
function far(at, now) {
  const s = Math.round(Math.abs(at - now) / 1000);
  const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
  let text;
  if (s < 60) text = s + " s";
  else if (s < 3600) text = m + " min";
  else if (s < 86400) text = h + " h" + (m ? " " + m + " min" : "");
  else if (d < 60) text = d + " d" + (h && d < 7 ? " " + h + " h" : "");
  else text = Math.round(d / 30.4) + " months";
  return at > now ? "in " + text : text + " ago";
}

function tellDistances() {
  const now = Date.now();
  for (const e of document.querySelectorAll("[data-at]")) {
    const text = far(Date.parse(e.dataset.at), now);
    if (e.textContent !== text) e.textContent = text;
  }
}

// busy: somebody is typing or marking text in the page; it is left as it is meanwhile.
function busy(main) {
  const at = document.activeElement;
  if (at && main.contains(at) && at.matches("input, textarea, select")) return true;
  const marked = getSelection();
  return marked && !marked.isCollapsed && main.contains(marked.anchorNode);
}

function swap(main, text) {
  const next = new DOMParser().parseFromString(text, "text/html").body;
  const known = new Set(Array.from(main.querySelectorAll("[data-key]"), (e) => e.dataset.key));
  for (const e of next.querySelectorAll("[data-key]")) {
    if (!known.has(e.dataset.key)) e.classList.add("fresh");
  }
  for (const e of main.querySelectorAll("details[open][id]")) {
    const same = next.querySelector("#" + CSS.escape(e.id));
    if (same) same.open = true;
  }
  const focus = main.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  main.replaceChildren(...next.childNodes);
  if (focus) main.querySelector('[href="' + CSS.escape(focus) + '"]')?.focus({ preventScroll: true });
  tellDistances();
}

function live(main) {
  const beat = document.querySelector(".beat");
  let tag = "", pause = Number(main.dataset.every);
  async function look() {
    if (!document.hidden && !busy(main)) {
      try {
        const headers = { "Carillon-Part": "main" };
        if (tag) headers["If-None-Match"] = tag;
        const answer = await fetch(location.href, { headers, cache: "no-store" });
        if (answer.status === 401) return location.reload();
        if (answer.ok) {
          const text = await answer.text();
          if (!busy(main)) {
            tag = answer.headers.get("ETag") || "";
            swap(main, text);
          }
        }
        const there = answer.ok || answer.status === 304;
        pause = there ? Number(main.dataset.every) : Math.min(pause * 2, 30000);
        if (beat) beat.textContent = there ? "This page is live." : "The server has a problem; trying again.";
      } catch {
        pause = Math.min(pause * 2, 30000);
        if (beat) beat.textContent = "The server does not answer; trying again.";
      }
    }
    setTimeout(look, pause);
  }
  if (beat) beat.hidden = false;
  setTimeout(look, pause);
}

// The key / goes to the field that finds things, unless somebody is typing.
document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey) return;
  const at = document.activeElement, field = document.getElementById("find");
  if (!field || at && at.matches("input, textarea, select, [contenteditable]")) return;
  e.preventDefault();
  field.focus();
  field.select();
});

tellDistances();
setInterval(tellDistances, 1000);
const main = document.getElementById("main");
if (main && main.dataset.every) live(main);
