// What moves. Without this script every page says the same, as of when it was loaded.
"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // Light or dark, as in reports.
  const button = byId("theme");
  const kept = () => { try { return localStorage.getItem("vtax-theme"); } catch { return null; } };
  const keep = (v) => { try { localStorage.setItem("vtax-theme", v); } catch { /* storage may be off */ } };
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (kept()) root.dataset.theme = kept();
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      keep(root.dataset.theme);
    });
  }

  // A run that was just started: look again until there is something to follow.
  const early = document.querySelector("[data-again]");
  if (early) setTimeout(() => location.reload(), 1000 * Number(early.dataset.again));

  // Tips: the <title> of a mark, at once and also by touch.
  const tip = byId("tip");
  const tips = () => {
    for (const title of document.querySelectorAll("svg > * > title")) {
      const mark = title.parentNode;
      mark.dataset.tip = title.textContent;
      mark.setAttribute("role", "img");
      mark.setAttribute("aria-label", title.textContent);
      title.remove();
    }
  };
  tips();
  const show = (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const x = Math.min(event.pageX + 14, scrollX + root.clientWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(scrollX + 8, x) + "px";
    tip.style.top = event.pageY + 16 + "px";
  };
  if (tip) {
    addEventListener("pointermove", show);
    addEventListener("pointerdown", show);
  }

  // A run in progress.
  const live = byId("live");
  const set = (id, text) => { const e = byId(id); if (e && e.textContent !== text) e.textContent = text; };
  const long = (ms) => {
    const s = ms / 1000;
    return s < 120 ? s.toFixed(0) + " s" : s < 7200 ? (s / 60).toFixed(0) + " min" : (s / 3600).toFixed(1) + " h";
  };
  const digits = (v) => v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2);
  const scaled = (v) => {
    let suffix = "";
    for (const s of ["k", "M", "G"]) {
      if (v < 9999.5 && suffix === "") break;
      if (v < 999.5) break;
      v /= 1000;
      suffix = s;
    }
    return digits(v) + suffix;
  };
  const state = (word) => {
    const e = byId("state");
    e.dataset.state = word;
    e.textContent = word;
  };
  // The names of columns are shown on narrow windows, as in the tables that the server writes.
  const row = (cells, names) => {
    const tr = document.createElement("tr");
    cells.forEach(([text, number], i) => {
      const cell = document.createElement(i ? "td" : "th");
      if (i) cell.dataset.label = names[i];
      else cell.scope = "row";
      if (number) cell.className = "n";
      cell.textContent = text;
      tr.append(cell);
    });
    return tr;
  };
  const toGo = (w) => w.told ? "no more rounds" : w.further === null ? "not in sight"
    : w.further === 1 ? "1 more round" : w.further + " more rounds";
  const widths = (all) => {
    const body = document.querySelector("#widths tbody");
    const names = [...document.querySelectorAll("#widths th[scope=col]")].map((th) => th.textContent);
    body.replaceChildren(...all.map((w) => row([
      [w.cell], [w.test ? w.measure + "/" + w.test : w.measure],
      [w.interval ? digits(w.interval[0]) + "–" + digits(w.interval[1]) : "", true],
      [String(w.rounds), true], [toGo(w)],
    ], names)));
  };
  const news = (text) => {
    const list = byId("news");
    const item = document.createElement("li");
    item.textContent = new Date().toISOString().slice(11, 19) + " " + text;
    list.prepend(item);
    while (list.children.length > 200) list.lastChild.remove();
  };

  // The part that the server draws: again after each trial, once for trials that come together.
  let drawing = 0;
  const redraw = () => {
    clearTimeout(drawing);
    drawing = setTimeout(async () => {
      const part = byId("progress");
      try {
        const answer = await fetch(part.dataset.from);
        if (!answer.ok) return;
        part.innerHTML = await answer.text();
        tips();
        root.dataset.drawn = String(Number(root.dataset.drawn || 0) + 1);
      } catch { /* the connection is lost: its return draws again */ }
    }, 500);
  };

  let spent = live ? Number(live.dataset.spent) : 0;
  const spend = (ms) => {
    spent += ms;
    const budget = Number(live.dataset.budget);
    set("spent", long(spent) + (budget ? " of " + long(budget) : ", without a limit"));
  };
  // The last states of a run may come after its end.
  let ended = live !== null && byId("state").dataset.state === "complete";
  let following = null;
  const follow = () => {
    const source = new EventSource(live.dataset.events);
    following = source;
    const on = (name, act) => source.addEventListener(name, (event) => {
      live.dataset.last = event.lastEventId;
      act(JSON.parse(event.data));
    });
    let cut = false;
    source.addEventListener("open", () => {
      live.classList.remove("cut");
      root.dataset.opened = String(Number(root.dataset.opened || 0) + 1);
      if (cut) redraw();
      cut = false;
    });
    source.addEventListener("error", () => {
      cut = true;
      live.classList.add("cut");
      // A server that refuses for good isn't asked again by the browser: this asks again.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (following === source) again(); }, 5000);
    });
    on("state", (s) => {
      if (ended) return;
      if (s.written) state("running");
      set("phase", s.phase);
      set("trial", s.trial ? String(s.trial.index).padStart(3, "0") + " " + s.trial.cell + " · " + s.trial.measure : "");
      set("rate", s.rate === null ? "" : scaled(s.rate) + " /s");
      const more = s.owed ? ", at least " + s.owed + " to go" : "; more trials: until the taxes are known well enough, or in place of disturbed ones";
      set("trials", s.finished || s.owed ? s.finished + " made" + more : "");
      set("left", s.owed ? long(s.remaining_ms) : "");
      widths(s.widths);
    });
    on("trial", (t) => {
      news("trial " + String(t.index).padStart(3, "0") + " of " + t.cell + " · " + t.measure + (t.valid ? " counts" : " doesn't count: " + t.reason));
      spend(t.spent_ms);
      redraw();
    });
    on("note", (n) => news((n.cell ? n.cell + ": " : "") + n.text));
    on("resumed", () => { ended = false; state("running"); news("the run was resumed"); });
    on("completed", () => { ended = true; state("complete"); set("phase", ""); set("left", ""); news("the run is complete"); redraw(); });
    on("quiet", () => {
      if (byId("state").dataset.state === "running") state("incomplete");
      set("phase", "");
      set("left", "");
    });
  };
  const again = () => {
    if (live.dataset.last) live.dataset.events = live.dataset.events.replace(/after=.*/, "after=" + live.dataset.last);
    follow();
  };
  // A browser has six connections to a server: a page that nobody sees, or that was left, keeps none of them.
  const pause = () => {
    if (following) following.close();
    following = null;
  };
  const goOn = () => { if (!following && !document.hidden) again(); };
  if (live) {
    goOn();
    addEventListener("pagehide", pause);
    addEventListener("pageshow", goOn);
    document.addEventListener("visibilitychange", () => document.hidden ? pause() : goOn());
  }

  // Keys.
  const rows = [...document.querySelectorAll("tr[data-href]")];
  let at = -1;
  const go = (to) => {
    if (!rows.length) return;
    if (rows[at]) rows[at].classList.remove("at");
    at = Math.max(0, Math.min(rows.length - 1, to));
    rows[at].classList.add("at");
    rows[at].querySelector("a").focus();
  };
  const choose = (side) => { if (rows[at]) rows[at].querySelector(`input[name="${side}"]`).checked = true; };
  const help = () => {
    let box = document.querySelector("dialog");
    if (!box) {
      box = document.createElement("dialog");
      const list = document.createElement("dl");
      for (const [key, what] of [["j, k", "next and previous run"], ["Enter", "open the run"], ["a, b", "choose it as A or as B"],
        ["c", "compare A with B"], ["/", "choose runs"], ["r", "the run's report"], ["g", "all runs"], ["?", "these keys"]]) {
        const dt = document.createElement("dt");
        const kbd = document.createElement("kbd");
        kbd.textContent = key;
        dt.append(kbd);
        const dd = document.createElement("dd");
        dd.textContent = what;
        list.append(dt, dd);
      }
      box.append(list);
      document.body.append(box);
    }
    box.open ? box.close() : box.showModal();
  };
  const keys = {
    j: () => go(at + 1),
    k: () => go(at - 1),
    a: () => choose("a"),
    b: () => choose("b"),
    c: () => { const form = document.querySelector('form[action="/compare"]'); if (form) form.requestSubmit(); },
    r: () => { const link = document.querySelector('[data-key="r"]'); if (link) link.click(); },
    g: () => { location.href = "/"; },
    "/": () => { const first = document.querySelector(".filter select"); if (first) first.focus(); },
    "?": help,
  };
  addEventListener("keydown", (event) => {
    const typing = event.target.closest && event.target.closest("input:not([type=radio]), select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
})();
