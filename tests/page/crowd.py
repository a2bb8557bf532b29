"""Two hundred clients listen at once, and others send what no browser sends. Prints what became of them as JSON:
crowd.py PORT COMMAND, where the command makes a network."""
import json, select, socket, subprocess, sys, time

PORT, COMMAND = int(sys.argv[1]), sys.argv[2]
LISTENERS, LIMIT = 200, 60
HOST = b"\r\nHost: localhost\r\n\r\n"
# What is no request to the page, and how it is answered.
ODD = {
    b"GET /../../etc/passwd HTTP/1.1" + HOST: "404",
    b"GET /%2e%2e/x HTTP/1.1" + HOST: "404",
    b"GET //evil.example/ HTTP/1.1" + HOST: "404",
    b"GET http://evil.example/ HTTP/1.1" + HOST: "400",
    b"GET /container?name=%00%ff%fe&runtime=%c3%28 HTTP/1.1" + HOST: "404",
    b"GET /x%0d%0aSet-Cookie:%20a=b HTTP/1.1" + HOST: "404",
    b"GET /events?page=99999999999999999999999999 HTTP/1.1" + HOST: "200",
    b"GET /events?day=2026-13-45 HTTP/1.1" + HOST: "200",
    b"GET /containers?q=" + b"%3C" * 2000 + b" HTTP/1.1" + HOST: "200",
    b"GET / HTTP/1.0\r\n\r\n": "421",
    b"GET /\r\n\r\n": "400",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n": "400",
    b"GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n": "421",
    b"GET / HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n": "421",
    b"GET / HTTP/1.1\r\nHost: localhost:99999\r\n\r\n": "421",
    b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n": "400",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": "400",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello": "400",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"
    b"Sec-Fetch-Dest: iframe\r\n\r\n": "403",
    b"TRACE / HTTP/1.1" + HOST: "405",
    b"get / HTTP/1.1" + HOST: "405",
}


def ask(request):
    with socket.create_connection(("127.0.0.1", PORT), timeout=LIMIT) as client:
        client.sendall(request)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    head = answer.partition(b"\r\n\r\n")[0]
    return head.split(b" ")[1].decode() if b"Set-Cookie" not in head else "a field of the client's"


odd = {request.decode("latin-1")[:80]: status for request, wanted in ODD.items() if (status := ask(request)) != wanted}

listeners = {}
for _ in range(LISTENERS):
    client = socket.create_connection(("127.0.0.1", PORT), timeout=LIMIT)
    client.sendall(b"GET /live HTTP/1.1" + HOST)
    listeners[client.fileno()] = [client, b""]
while_they_listen = ask(b"GET /ports HTTP/1.1" + HOST)


def hear(is_enough):
    """Reads until that is so; what has ended is left out from then on."""
    until = time.monotonic() + LIMIT
    while not is_enough() and time.monotonic() < until:
        for number in select.select(list(listeners), [], [], 0.2)[0]:
            client = listeners[number]
            try:
                piece = client[0].recv(65536)
            except ConnectionError:
                piece = b""
            if not piece:
                client[0].close()
                del listeners[number]
            client[1] += piece


streams = lambda: [client for client in listeners.values() if b"text/event-stream" in client[1]]
# All others have been answered, or cut off.
hear(lambda: len(streams()) == len(listeners))
listening = len(streams())
subprocess.run(["sh", "-c", COMMAND], check=True, stdout=subprocess.DEVNULL)
hear(lambda: all(b"event: change" in client[1] for client in streams()))
heard = sum(b"event: change" in client[1] for client in streams())
print(json.dumps({"odd": odd, "while": while_they_listen, "listening": listening, "heard": heard}))
