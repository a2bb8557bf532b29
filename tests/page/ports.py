# Looks at the ports of a host. Follows browser.py. Argument: the URL of the page. Prints what it saw as JSON.
import sys

URL = sys.argv[1]
COUNT = "document.querySelector('.figures a[href=\"ports\"] strong').innerText"
ROWS = """[...document.querySelectorAll('main tbody tr')].map(row => ({
  port: row.querySelector('th').innerText.trim(),
  from: row.querySelector('.reach').innerText,
  links: row.querySelectorAll('a').length,
  text: row.innerText,
}))"""
BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

browser = Browser()
try:
    browser.size(1280)
    browser.open(URL)
    seen = {"count": browser.run(COUNT)}
    for how, width in (("wide", 1280), ("narrow", 390)):
        browser.size(width)
        browser.open(URL + "ports")
        seen[how] = {"rows": browser.run(ROWS), "beyond": browser.run(BEYOND)}
    seen["complaints"] = browser.complaints
finally:
    browser.close()
print(json.dumps(seen))
