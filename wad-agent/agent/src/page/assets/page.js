// The page is whole without this: it only asks for the same page again, every five seconds
// while somebody looks, and puts what has changed in its place.
"use strict";
const PERIOD_MS = 5000;
const box = document.getElementById("refresh");
const state = document.createElement("span");
const button = document.createElement("button");
let live = true;
let asking = false;

state.setAttribute("role", "status");
button.type = "button";
box.append(state, " ", button);
box.hidden = false;

function say(text) {
  if (state.textContent !== text) state.textContent = text;
}

function show() {
  button.textContent = live ? "Pause" : "Go on";
  say(live ? "Refreshes every 5 s" : "Paused");
}

// The element that stands where this one stood: by its name, or by where it leads to.
function again(part, old) {
  if (old.id) return document.getElementById(old.id);
  const href = old.getAttribute("href");
  return [...part.querySelectorAll("a")].find((a) => a.getAttribute("href") === href);
}

function put(page) {
  const [now, next] = [document, page].map((it) => it.getElementById("live"));
  if (!now || !next) return;
  const focused = now.contains(document.activeElement) ? document.activeElement : null;
  const open = [...now.querySelectorAll("details[open]")].map((it) => it.id);
  const left = new Map([...now.querySelectorAll(".scroll")].map((it) => [it.id, it.scrollLeft]));
  const part = document.adoptNode(next);
  part.querySelectorAll("details").forEach((it) => { it.open = open.includes(it.id); });
  now.replaceWith(part);
  part.querySelectorAll(".scroll").forEach((it) => { it.scrollLeft = left.get(it.id) || 0; });
  const other = focused && again(part, focused);
  if (other) other.focus({ preventScroll: true });
}

function ask() {
  const selected = String(document.getSelection());
  if (!live || asking || document.hidden || selected) return;
  asking = true;
  const request = new XMLHttpRequest();
  request.open("GET", location.href);
  request.responseType = "document";
  request.timeout = 4 * PERIOD_MS;
  request.onloadend = () => {
    asking = false;
    const answer = request.response;
    if (answer && live) put(answer);
    if (live) say(answer ? "Refreshes every 5 s" : "No answer: it is asked again");
  };
  request.send();
}

button.addEventListener("click", () => {
  live = !live;
  show();
  ask();
});
document.addEventListener("visibilitychange", ask);
setInterval(ask, PERIOD_MS);
show();
