// Keeps the view current, and adds a text field to the list of containers. Everything can be read
// without this script.
"use strict";

(() => {
  const PAUSE = 150;          // between two looks at a busy host, in milliseconds
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

  // Replaces what differs, and nothing else: a reader's place and selection stay.
  function update(old, now) {
    if (old.isEqualNode(now)) return;
    const alike = old.children.length === now.children.length
      && [...old.children].every((one, at) => one.tagName === now.children[at].tagName)
      && ![...old.childNodes, ...now.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!alike || old.namespaceURI !== now.namespaceURI || !old.children.length || old.tagName === "TR") {
      const fresh = document.importNode(now, true);
      if (old.tagName === "TR") fresh.classList.add("new");
      old.replaceWith(fresh);
      return;
    }
    for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of now.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    [...old.children].forEach((one, at) => update(one, now.children[at]));
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
      const field = main.querySelector("#find input");
      if (field) {
        // The field is the script's own, and stays.
        now.querySelector("#find")?.replaceChildren(...[field.cloneNode(true)]);
        field.setAttribute("value", field.value);
        now.querySelector("#find input")?.setAttribute("value", field.value);
        now.querySelector("#find")?.setAttribute("data-value", field.value);
        main.querySelector("#find").setAttribute("data-value", field.value);
      }
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
    if (source || document.hidden) return;
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
