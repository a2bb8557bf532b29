# When something is seen of a page: paint.py URL TURNS PAUSE. Follows browser.py of tests/page. Prints milliseconds
# from the navigation's start, of each turn, as JSON.
import sys

URL, TURNS, PAUSE = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
FIRST = """(async () => { let first;
  while (!(first = performance.getEntriesByName('first-contentful-paint')[0])) await new Promise(requestAnimationFrame);
  return first.startTime; })()"""

browser = Browser()
try:
    times = []
    # The browser's own first page costs it more than any other.
    for turn in range(TURNS + 1):
        browser.size(1280, 900)
        browser.open("about:blank")
        time.sleep(PAUSE if turn else 0)
        browser.open(URL)
        times.append(browser.run(FIRST))
    print(json.dumps(times[1:]))
finally:
    browser.close()
