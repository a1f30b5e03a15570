"use strict";
// Tables sort by the buttons in their heads, and copy as Markdown and CSV.
const Tables = (() => {
  const factors = { KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, "µs": 0.001, ms: 1, s: 1000, min: 60000 };
  const text = (cell) => cell.innerText.replace(/\s+/g, " ").trim();

  const amount = String.raw`([-−+]?\d[\d,]*(?:\.\d+)?)(?: ?(%|/s|points|scenario seconds|KiB|MiB|GiB|µs|ms|min|s)(?!\p{L}))?`;
  const whole = new RegExp(String.raw`^(?:± )?${amount}(?: \(${amount} to ${amount}\))?(?:, ${amount})?(?: (\D+))?$`, "u");
  const plain = (digits) => Number(digits.replace(/[,+]/g, "").replace("−", "-"));

  // What a cell of figures says: "66.7 % (66.0 to 67.2) lower" has all but a share, as
  // "12.0 ms, 40.0 %" has one. Null where it is words.
  function figure(cell) {
    const found = whole.exec(cell);
    if (!found) return null;
    const [, digits, unit = "", low, lowUnit = unit, high, highUnit = unit, share, , note = ""] = found;
    const alike = (end, its) => Number((plain(end) * ((factors[its] ?? 1) / (factors[unit] ?? 1))).toPrecision(12));
    return {
      value: plain(digits), unit, note,
      from: low && alike(low, lowUnit), to: high && alike(high, highUnit), share: share && plain(share),
    };
  }

  // The number of a cell, in one unit; NaN if it is words.
  function number(cell) {
    const found = figure(cell);
    return found ? found.value * (factors[found.unit] ?? 1) : NaN;
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

  // A column of figures as columns of bare numbers, which a spreadsheet can count with:
  // the unit is in the head or, where the rows differ in it, in a column behind.
  function bare(title, cells) {
    const figures = cells.map((cell) => figure(cell) ?? { note: cell === "–" ? "" : cell });
    const units = [...new Set(figures.filter((f) => f.value !== undefined).map((f) => f.unit))];
    const within = (name) => (units.length === 1 && units[0] ? `${name} (${units[0]})` : name);
    const of = (key) => figures.map((f) => f[key] ?? "");
    return [
      [within(title), of("value")],
      [`${title}, unit`, units.length > 1 ? of("unit") : []],
      [within(`${title}, from`), of("from")], [within(`${title}, to`), of("to")],
      [`${title}, share (%)`, of("share")], [`${title}, note`, of("note")],
    ].filter(([, values], i) => i === 0 || values.some((v) => v !== "")).map(([head, values]) => [head, ...values]);
  }

  // RFC 4180.
  function csv(table) {
    const [head, ...body] = rowsOf(table);
    const columns = head.flatMap((title, i) => {
      const cells = body.map((row) => row[i]);
      return table.tHead.rows[0].cells[i].classList.contains("numeric") ? bare(title, cells) : [[title, ...cells]];
    });
    const quoted = (cell) => (/[",\n]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : `${cell}`);
    return [head, ...body].map((_, row) => columns.map((column) => quoted(column[row])).join(",") + "\r\n").join("");
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

  // A key that is down has more to say: its keypress, and repeats as long as it is held.
  let held = false;
  const released = () => { held = false; };

  // A link to something folded up opens it. A key that followed the link is let go first:
  // on the summary, the rest of it would fold up again what it has opened.
  function unfold() {
    let target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
    const focus = () => target.querySelector("summary")?.focus({ preventScroll: true });
    if (held) addEventListener("keyup", focus, { once: true }); else focus();
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".table").forEach(enhance);
    unfold();
    addEventListener("hashchange", unfold);
    addEventListener("keydown", () => { held = true; });
    addEventListener("keyup", released);
    addEventListener("blur", released); // the window that is left for another hears of no keyup
  });
  return { enhance, figure, markdown, csv };
})();
