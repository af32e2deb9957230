"use strict";
// Sorts a table by the column whose head cell is clicked: numbers by value, the largest first.
const numberIn = (text) => {
  const found = /^[+\-−]?\d[\d,]*(\.\d+)?/.exec(text.trim());
  return found ? Number(found[0].replaceAll(",", "").replace("−", "-")) : null;
};

function sortBy(head) {
  const table = head.closest("table"), column = head.cellIndex, body = table.tBodies[0];
  const texts = (row) => row.cells[column].textContent;
  const rows = [...body.rows], known = rows.filter((row) => !/^(-|\?)( |$)/.test(texts(row)));
  const numeric = known.length > 0 && known.every((row) => numberIn(texts(row)) !== null);
  const before = head.getAttribute("aria-sort");
  const down = before === "none" ? numeric : before === "ascending";
  const compare = numeric
    ? (a, b) => numberIn(texts(a)) - numberIn(texts(b))
    : (a, b) => texts(a).localeCompare(texts(b), "en", { numeric: true });
  known.sort((a, b) => (down ? -1 : 1) * compare(a, b));
  body.append(...known, ...rows.filter((row) => !known.includes(row)));  // unknown values come last
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
}

// Hides the rows that do not contain all of the words, in numbers or names.
function showRows(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll("tbody tr")) {
    const content = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
    row.hidden = !words.every((word) => content.includes(word));
  }
}

for (const head of document.querySelectorAll("th")) head.addEventListener("click", () => sortBy(head));
for (const field of document.querySelectorAll(".rows")) field.addEventListener("input", () => showRows(field.value));
