# Looks at every view. Follows browser.py. Arguments: the URL of the page, a command that connects a
# container `late`, and one that disconnects it. Prints what it saw as JSON.
import subprocess
import sys

URL, CONNECT, DISCONNECT = sys.argv[1:4]
VIEWS = {
    "overview": "", "addresses": "addresses", "network": "addresses?network=back",
    "containers": "containers", "filtered": "containers?q=tier%3Ddb", "container": "container?name=web&runtime=spoke",
    "hostile": "container?name=hostile&runtime=spoke", "ports": "ports", "events": "events",
    "second": "events?page=2", "day": "events?day=2026-10-20", "checks": "checks",
    "explain": "explain", "explained": "explain?from=spoke%2Fweb&to=db&port=5432",
    "unknown": "explain?from=web&to=nobody&port=x", "denied": "denied", "of network": "denied?network=front",
    "hosts": "hosts",
}

LINKS = """[...document.querySelectorAll('a[href], input')].filter(one => one.getClientRects().length)"""

# The least contrast of any text with what is behind it (WCAG 2.2, 1.4.3).
CONTRAST = """(() => {
  const light = (rgb) => rgb.map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [.2126, .7152, .0722][at], 0);
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const color = parts(getComputedStyle(one).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  let worst = [21, ''];
  for (const one of document.body.querySelectorAll('*')) {
    const text = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!text || !one.getClientRects().length) continue;
    const style = getComputedStyle(one);
    const svg = one instanceof SVGElement;
    if (svg && one.tagName !== 'text') continue;
    const back = behind(svg ? one.ownerSVGElement.closest(':not(svg *)') : one);
    const [a, b] = [light(parts(svg ? style.fill : style.color).slice(0, 3)), light(back)];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < worst[0]) worst = [ratio, one.outerHTML.slice(0, 120)];
  }
  return worst;
})()"""

FOCUS = """(() => {
  const one = document.activeElement, style = getComputedStyle(one);
  const all = [...document.querySelectorAll('a[href], input')];
  return [all.indexOf(one), style.outlineStyle !== 'none' && style.outlineWidth !== '0px'];
})()"""

LOOK = """({
  text: document.body.innerText,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  h1: document.querySelectorAll('h1').length,
  marks: ['header', 'nav[aria-label]', 'main', 'footer', '.skip[href="#content"]']
    .filter(mark => !document.querySelector(mark)),
  heads: [...document.querySelectorAll('th')].filter(head => !head.scope).length,
  tables: [...document.querySelectorAll('table')].filter(table => !table.caption).length,
  foreign: document.querySelectorAll('main script, main img, main iframe, main form:not(.question), [onerror], [style]').length,
  hidden: /[\\u202a-\\u202e\\u2066-\\u2069\\u200b-\\u200f\\u001b\\u009b]/.test(document.documentElement.textContent),
  current: document.querySelectorAll('nav [aria-current]').length,
})"""


def look(browser, name, dark, width):
    browser.size(width, 844, dark)
    browser.open(URL + VIEWS[name])
    seen = browser.run(LOOK)
    seen["contrast"] = browser.run(CONTRAST)
    return seen


def tabs(browser, name):
    """Which links the tab key does not reach, and which do not show that they have the focus."""
    browser.size(1280, 900)
    browser.open(URL + VIEWS[name])
    browser.run("document.activeElement.blur()")
    wanted = browser.run(f"(all => {LINKS}.map(one => all.indexOf(one)))([...document.querySelectorAll('a[href], input')])")
    reached, plain = set(), []
    for _ in range(len(wanted) + 2):
        browser.key("Tab", 9)
        at, is_shown = browser.run(FOCUS)
        if at < 0 or at in reached:
            break
        reached.add(at)
        if not is_shown:
            plain.append(at)
    return {"links": len(wanted), "missed": [one for one in wanted if one not in reached], "plain": plain}


def shell(command):
    subprocess.run(["sh", "-c", command], check=True, stdout=subprocess.DEVNULL)


# An announced change is shown within this, in seconds. The page asks by itself after 30.
SOON = 2


def soon(browser):
    """The first of some updates that was soon: the browser shares the host's processors with other tests, and may
    wait for its turn longer than that."""
    for _ in range(5):
        seen = live(browser)
        if seen["seconds"] < SOON:
            break
        shell(DISCONNECT)
    return seen


def live(browser):
    """How long after the command a container is shown, in seconds; the focus and the place stay."""
    browser.size(1280, 900)
    browser.open(URL + "containers?network=front")
    browser.run("""(async () => {
      while (document.getElementById('live').textContent !== 'live') await new Promise(requestAnimationFrame);
      document.querySelector('main a[href*="name=web"]').focus();
      window.shown = new Promise(done => new MutationObserver(() => {
        if (document.querySelector('main').innerText.includes('late')) done(Date.now());
      }).observe(document.querySelector('main'), { childList: true, subtree: true }));
    })()""")
    shell(CONNECT)
    started = time.time()
    shown = browser.run("window.shown")
    return {"seconds": shown / 1000 - started,
            "focus": browser.run("document.activeElement.getAttribute('href')")}


# Roles that a reader stops at: each says what it is.
NAMED = {"link", "textbox", "searchbox", "button", "image", "img", "table", "navigation", "columnheader",
         "rowheader", "heading", "region", "graphics-document", "graphics-symbol"}
LANDMARKS = {"banner", "navigation", "main", "contentinfo"}


def spoken(browser, name):
    """What a screen reader reads: parts without a name, landmarks that are missing, headings that skip a level,
    links that are named alike and lead to different places."""
    browser.size(1280, 900)
    browser.open(URL + VIEWS[name])
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    nodes = [node for node in nodes if not node["ignored"]]
    role = lambda node: node.get("role", {}).get("value", "")
    title = lambda node: node.get("name", {}).get("value", "").strip()
    levels = [prop["value"]["value"] for node in nodes if role(node) == "heading"
              for prop in node.get("properties", []) if prop["name"] == "level"]
    links = {}
    for node in nodes:
        if role(node) == "link":
            url = [prop["value"]["value"] for prop in node.get("properties", []) if prop["name"] == "url"]
            links.setdefault(title(node), set()).update(url)
    return {
        "parts": len(nodes),
        "unnamed": sorted({role(node) for node in nodes if role(node) in NAMED and not title(node)}),
        "missing": sorted(LANDMARKS - {role(node) for node in nodes}),
        "skipped": [pair for pair in zip([0] + levels, levels) if pair[1] > pair[0] + 1],
        "alike": sorted(text for text, urls in links.items() if len(urls) > 1),
    }


def painted(browser, name):
    """After how many milliseconds something is seen, the best of some loads."""
    script = """(async () => { let first;
      while (!(first = performance.getEntriesByName('first-contentful-paint')[0])) await new Promise(requestAnimationFrame);
      return first.startTime; })()"""
    times = []
    for _ in range(5):
        browser.size(1280, 900)
        browser.open(URL + VIEWS[name])
        times.append(browser.run(script))
    return min(times)


def find(browser):
    """What the text field finds, and where the URL is then."""
    browser.size(1280, 900)
    browser.open(URL + "containers")
    browser.run("document.querySelector('#find input').focus()")
    browser.type("cache")
    browser.run("""(async () => { while (!document.querySelector('main .sum').innerText.includes(' of '))
      await new Promise(requestAnimationFrame); })()""")
    return browser.run("[document.querySelector('main table').innerText, location.search, "
                       "document.activeElement.value]")


def main():
    seen = {"wide": {}, "narrow": {}, "plain": {}}
    browser = Browser(scripted=False)
    try:
        for name in VIEWS:
            seen["plain"][name] = look(browser, name, False, 1280)
    finally:
        browser.close()
    browser = Browser()
    try:
        for name in VIEWS:
            seen["wide"][name] = look(browser, name, False, 1280)
            seen["narrow"][name] = look(browser, name, True, 390)
        seen["tabs"] = {name: tabs(browser, name) for name in ("overview", "addresses", "container", "events")}
        seen["spoken"] = {name: spoken(browser, name) for name in VIEWS}
        seen["painted"] = {name: painted(browser, name) for name in ("overview", "containers")}
        seen["find"] = find(browser)
        seen["live"] = soon(browser)
        seen["complaints"] = browser.complaints
    finally:
        browser.close()
    print(json.dumps(seen))


main()
