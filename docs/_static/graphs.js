// Pages of graphs within a page have its colours: dark or light, by its switch or else by the system.
"use strict";

function isDark() {
  const theme = document.body.dataset.theme;
  if (theme === "dark" || theme === "light") return theme === "dark";
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function colour(frame) {
  const wanted = isDark() ? "dark" : "light";
  if (frame.dataset.colours === wanted) return;
  // The address says the colours, and is read once: a frame of other colours is another frame.
  const other = frame.cloneNode();
  other.src = `${frame.getAttribute("src").split("#")[0]}#${wanted}`;
  other.dataset.colours = wanted;
  frame.replaceWith(other);
}

document.addEventListener("DOMContentLoaded", () => {
  const all = () => document.querySelectorAll("iframe.graph").forEach(colour);
  all();
  new MutationObserver(all).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
});
