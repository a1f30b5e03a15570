"use strict";
// Tables sort by the buttons in their heads, and copy as Markdown and CSV.
const Tables = (() => {
  const factors = { KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, "µs": 0.001, ms: 1, s: 1000, min: 60000 };
  const text = (cell) => cell.innerText.replace(/\s+/g, " ").trim();

  // The number that a cell begins with, in one unit; NaN if it begins with none.
  function number(cell) {
    const found = /^([-−+]?[\d,]*\.?\d+)\s*([%\p{L}µ]*)/u.exec(cell);
    if (!found) return NaN;
    return parseFloat(found[1].replace(/,/g, "").replace("−", "-")) * (factors[found[2]] ?? 1);
  }

  // Cells without a figure stay at the end, whichever way the rest is sorted.
  function compare(numeric, up) {
    return (a, b) => {
      if (!numeric) return (up ? 1 : -1) * a.key.localeCompare(b.key, "en", { numeric: true });
      const x = number(a.key), y = number(b.key);
      if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
      return up ? x - y : y - x;
    };
  }

  function sort(table, column, head) {
    const up = head.getAttribute("aria-sort") !== "ascending";
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, key: text(row.cells[column]) }));
    rows.sort(compare(head.classList.contains("numeric"), up));
    body.append(...rows.map((r) => r.row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
  }

  const rowsOf = (table) => [...table.rows].map((row) => [...row.cells].map(text));

  function markdown(table) {
    const [head, ...body] = rowsOf(table).map((row) => row.map((cell) => cell.replace(/\|/g, "\\|")));
    const rule = [...table.tHead.rows[0].cells].map((cell) => (cell.classList.contains("numeric") ? "---:" : "---"));
    return [head, rule, ...body].map((row) => `| ${row.join(" | ")} |`).join("\n") + "\n";
  }

  // RFC 4180.
  function csv(table) {
    const quoted = (cell) => (/[",\n]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell);
    return rowsOf(table).map((row) => row.map(quoted).join(",") + "\r\n").join("");
  }

  async function copy(content) {
    try {
      await navigator.clipboard.writeText(content);
      return;
    } catch { /* refused, or not there for a page from disk: the old way */ }
    const give = (event) => { event.clipboardData.setData("text/plain", content); event.preventDefault(); };
    document.addEventListener("copy", give, { once: true });
    const done = document.execCommand("copy");
    document.removeEventListener("copy", give);
    if (!done) throw new Error("the browser did not let the page copy");
  }

  function enhance(box) {
    const table = box.querySelector("table");
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = head.querySelector("button");
      if (button) button.addEventListener("click", () => sort(table, column, head));
    });
    const said = box.querySelector(".copy output");
    const write = { markdown, csv };
    for (const button of box.querySelectorAll("button[data-copy]")) {
      button.addEventListener("click", async () => {
        try {
          await copy(write[button.dataset.copy](table));
          said.textContent = "copied";
        } catch (err) {
          said.textContent = err.message;
        }
        setTimeout(() => { said.textContent = ""; }, 2000);
      });
    }
  }

  // A link to something folded up opens it.
  function unfold() {
    let target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
    target.querySelector("summary")?.focus({ preventScroll: true });
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".table").forEach(enhance);
    unfold();
    addEventListener("hashchange", unfold);
  });
  return { enhance, markdown, csv };
})();
