"use strict";
// The colours of the page: as the system has them, or as the reader chose. Charts are
// drawn on canvases, which no style sheet reaches: they listen to "themechange".
const Theme = (() => {
  const choices = ["auto", "light", "dark"];
  const root = document.documentElement;
  let probe, known = new Map();

  const changed = () => { known.clear(); document.dispatchEvent(new Event("themechange")); };

  // A custom property reads as it was written, light-dark() and all; only a real
  // property of an element is resolved.
  function colour(token) {
    if (!known.has(token)) {
      if (!probe) {
        probe = document.createElement("span");
        probe.hidden = true;
        document.body.append(probe);
      }
      probe.style.color = `var(--${token})`;
      known.set(token, getComputedStyle(probe).color);
    }
    return known.get(token);
  }

  function choose(choice, button) {
    if (choice === "auto") delete root.dataset.theme; else root.dataset.theme = choice;
    button.textContent = `Colours: ${choice}`;
    changed();
  }

  // A page from disk may have no storage.
  const storage = { get() { try { return localStorage.getItem("theme"); } catch { return null; } },
    set(v) { try { localStorage.setItem("theme", v); } catch { /* the choice lasts as long as the page */ } } };

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("button.theme");
    if (button) {
      let choice = choices.includes(storage.get()) ? storage.get() : "auto";
      choose(choice, button);
      button.addEventListener("click", () => {
        choice = choices[(choices.indexOf(choice) + 1) % choices.length];
        storage.set(choice);
        choose(choice, button);
      });
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
    matchMedia("print").addEventListener("change", changed);
  });
  return { colour };
})();
