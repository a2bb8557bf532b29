// Keeps the view current, and adds a text field to the list of containers. Everything can be read
// without this script.
"use strict";

(() => {
  const PAUSE = 300;          // between two looks at a busy host, in milliseconds
  const EVERY = 30000;        // ages grow without any change
  const AGAIN = 1000;         // after a lost connection
  const status = document.getElementById("live");
  let source = null;
  let loading = false;
  let wanted = false;
  let last = 0;
  let lost = 0;

  function say(text, isLost) {
    status.hidden = false;
    status.classList.toggle("lost", isLost);
    if (status.textContent !== text) status.textContent = text;
  }

  // What has the focus, so that it has it again in the new content.
  function focused(main) {
    const active = document.activeElement;
    if (!active || !main.contains(active) || active === main) return null;
    const same = (one) => one.tagName === active.tagName
      && one.getAttribute("href") === active.getAttribute("href");
    const all = (place) => [...place.querySelectorAll("a, input")].filter(same);
    return { place: all(main).indexOf(active), all };
  }

  const hasText = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());

  // Replaces what differs, and nothing else: a reader's place and selection stay.
  function update(old, now) {
    // The text field is the script's own.
    if (old.id === "find" || old.isEqualNode(now)) return;
    if (old.tagName !== now.tagName || hasText(old) || hasText(now)) {
      old.replaceWith(document.importNode(now, true));
      return;
    }
    for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of now.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    children(old, now);
  }

  // A new row is marked for a moment.
  function mark(row) {
    row.classList.add("new");
    setTimeout(() => {
      row.classList.remove("new");
      if (!row.className) row.removeAttribute("class");
    }, 1600);
  }

  // What is the same at the start and at the end stays: events come at one end of a list.
  function children(old, now) {
    const [before, after] = [[...old.children], [...now.children]];
    const same = (one, other) => one && other && one.isEqualNode(other);
    while (same(before[0], after[0])) { before.shift(); after.shift(); }
    let end = null;
    while (same(before.at(-1), after.at(-1))) { end = before.pop(); after.pop(); }
    after.forEach((one, at) => {
      if (before[at]) { update(before[at], one); return; }
      const fresh = document.importNode(one, true);
      if (fresh.tagName === "TR") mark(fresh);
      old.insertBefore(fresh, end);
    });
    before.slice(after.length).forEach((one) => one.remove());
  }

  async function refresh() {
    if (loading) { wanted = true; return; }
    loading = true;
    wanted = false;
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      const text = await answer.text();
      const page = new DOMParser().parseFromString(text, "text/html");
      const now = page.getElementById("content");
      if (!now) throw new Error("no content");
      const main = document.getElementById("content");
      const focus = focused(main);
      update(main, now);
      if (focus && !main.contains(document.activeElement)) focus.all(main)[focus.place]?.focus();
      document.title = page.title;
      const time = page.getElementById("asof");
      if (time) document.getElementById("asof").replaceWith(document.importNode(time, true));
      last = Date.now();
      if (source) say("live", false);
    } catch {
      say("connection lost", true);
    }
    loading = false;
    if (wanted) setTimeout(refresh, PAUSE);
  }

  function soon() {
    if (wanted || document.getElementById("content").hasAttribute("data-still")) return;
    const passed = Date.now() - last;
    if (passed > PAUSE) refresh();
    else { wanted = true; setTimeout(refresh, PAUSE - passed); }
  }

  function listen() {
    // What does not change by itself is not live.
    if (source || document.hidden || document.querySelector("main[data-still]")) return;
    source = new EventSource("live");
    source.onopen = () => { say("live", false); if (lost) soon(); lost = 0; };
    source.addEventListener("change", soon);
    source.onerror = () => {
      lost += 1;
      // The daemon may only be restarting.
      if (lost > 1) say("connection lost", true);
      source.close();
      source = null;
      setTimeout(listen, AGAIN);
    };
  }

  // A hidden page needs no connection: browsers have six for each host.
  function rest() {
    if (source) source.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { rest(); return; }
    listen();
    soon();
  });
  addEventListener("pagehide", rest);
  addEventListener("pageshow", listen);
  setInterval(() => { if (!document.hidden) soon(); }, EVERY);

  // The text field.
  const find = document.getElementById("find");
  if (find) {
    const field = document.createElement("input");
    field.type = "search";
    field.value = find.dataset.value;
    field.setAttribute("value", field.value);
    field.maxLength = 200;
    field.placeholder = "Name, address, port or label";
    field.setAttribute("aria-label", "Find containers by name, address, port or label");
    find.append(field);
    let timer = 0;
    document.addEventListener("input", (event) => {
      if (event.target.closest?.("#find") === null) return;
      clearTimeout(timer);
      timer = setTimeout(() => {
        const url = new URL(location.href);
        if (event.target.value) url.searchParams.set("q", event.target.value);
        else url.searchParams.delete("q");
        url.searchParams.delete("page");
        history.replaceState(null, "", url);
        soon();
      }, PAUSE);
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest?.("input, textarea");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        document.querySelector("#find input")?.focus();
      }
    });
  }

  listen();
})();
