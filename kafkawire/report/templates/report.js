"use strict";
// Sorting, searching and copying. Text from the page is only ever moved as text.

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function compare(a, b, numbers) {
  if (a === "" || b === "") return (a === "") - (b === "");
  return numbers ? Number(a) - Number(b) : a.localeCompare(b, "en", {numeric: true});
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = element("button", head.textContent, {type: "button"});
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent;
      const numbers = [...table.tBodies[0].rows].every(row => key(row) === "" || !Number.isNaN(Number(key(row))));
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const order = compare(x, y, numbers);
        return down && x !== "" && y !== "" ? -order : order;  // what is not known stays last
      });
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      table.tBodies[0].append(...rows);
    });
  });
}

function searchable(table) {
  const rows = [...table.tBodies[0].rows];
  const input = element("input", "", {type: "search", autocomplete: "off", spellcheck: "false"});
  const label = element("label", "Search these rows ");
  const found = element("span", "", {role: "status", class: "quiet"});
  const box = element("div", "", {class: "search"});
  label.append(input);
  box.append(label, found);
  table.closest(".scroll").before(box);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const row of rows) {
      const text = [...row.cells].map(cell => cell.textContent).join(" ").toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
      left += !row.hidden;
    }
    found.textContent = words.length ? `${left} of ${rows.length} rows` : "";
  });
}

function copyable(block) {
  const text = block.textContent;
  const button = element("button", "Copy", {type: "button"});
  block.append(button);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(block.querySelector("code"));
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

for (const table of document.querySelectorAll("table.data")) {
  if (table.tBodies[0].rows.length < 2) continue;
  sortable(table);
  searchable(table);
}
document.querySelectorAll("pre.command").forEach(copyable);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(one => { one.open = true; }));
