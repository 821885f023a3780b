// Comfort only: without this script the page says the same.
"use strict";
(() => {
  const root = document.documentElement;
  const store = {
    get: () => { try { return localStorage.getItem("vtax-theme"); } catch { return null; } },
    set: (v) => { try { localStorage.setItem("vtax-theme", v); } catch { /* a file:// page may have no storage */ } },
  };

  // Light or dark.
  const button = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (store.get()) root.dataset.theme = store.get();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    store.set(root.dataset.theme);
  });

  // Tips: the <title> of a mark, at once and also by touch.
  const tip = document.getElementById("tip");
  for (const title of document.querySelectorAll("svg > * > title")) {
    const mark = title.parentNode;
    mark.dataset.tip = title.textContent;
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", title.textContent);
    // An image has no parts for readers of screens; a group has.
    mark.closest("svg").setAttribute("role", "group");
    title.remove();
  }
  const show = (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const x = Math.min(event.pageX + 14, scrollX + root.clientWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(scrollX + 8, x) + "px";
    tip.style.top = event.pageY + 16 + "px";
  };
  addEventListener("pointermove", show);
  addEventListener("pointerdown", show);

  // A key's entry switches its series off and on.
  for (const entry of document.querySelectorAll(".key [data-series]")) {
    const toggle = () => {
      const off = entry.classList.toggle("off");
      entry.setAttribute("aria-pressed", String(!off));
      for (const mark of entry.closest("figure").querySelectorAll("svg ." + entry.dataset.series)) {
        mark.classList.toggle("gone", off);
      }
    };
    // A list has nothing but items; a group may have buttons.
    entry.parentNode.setAttribute("role", "group");
    entry.setAttribute("role", "button");
    entry.setAttribute("aria-pressed", "true");
    entry.tabIndex = 0;
    entry.addEventListener("click", toggle);
    entry.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
    });
  }

  // Paper can't be clicked: all that is folded is printed, and folded again.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open])")];
    unfolded.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => unfolded.forEach((details) => { details.open = false; }));

  // Sorting. What is missing stays last, whichever way.
  const key = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent;
  const missing = (row, column) => ["", "—"].includes(row.cells[column].textContent.trim());
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const sort = () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const all = [...table.tBodies[0].rows];
        const rows = all.filter((row) => !missing(row, column));
        const numbers = rows.every((row) => row.cells[column].dataset.v !== undefined);
        const order = (a, b) => numbers ? a - b : a.localeCompare(b, undefined, { numeric: true });
        rows.sort((a, b) => order(key(a, column), key(b, column)));
        if (!up) rows.reverse();
        table.tBodies[0].append(...rows, ...all.filter((row) => missing(row, column)));
      };
      head.tabIndex = 0;
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); }
      });
    });
  }
})();
