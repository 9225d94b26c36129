#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""See where a request's time goes: a collector of OpenTelemetry that draws each trace in the terminal.

    examples/traces.py [--port 4318]                      in one terminal
    build/beamline serve --otlp http://127.0.0.1:4318     in another; then ask it something

    POST /api/v1/run 200  4.812 ms  trace 6f1c...
      receive       0.041 |#                                       |
      decode        0.101 |#                                       |
      compile       3.944 |  ###############################       |
      compute       0.202 |                                   ##   |
"""
import argparse
import http.server
import json

WIDTH = 40


def draw(spans):
    """The lines of one trace: the request, then its phases as they came."""
    root = next(span for span in spans if span["kind"] == 2)
    begin, end = int(root["startTimeUnixNano"]), int(root["endTimeUnixNano"])
    values = {item["key"]: next(iter(item["value"].values())) for item in root["attributes"]}
    yield f"{root['name']} {values.get('http.response.status_code', '-')}  {(end - begin) * 1e-6:.3f} ms  trace {root['traceId']}"
    scale = WIDTH / max(1, end - begin)
    for span in sorted((span for span in spans if span["kind"] == 1), key=lambda span: int(span["startTimeUnixNano"])):
        first, last = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        left = min(WIDTH - 1, int((first - begin) * scale))
        size = min(WIDTH - left, max(1, round((last - first) * scale)))
        yield f"  {span['name']:10} {(last - first) * 1e-6:8.3f} |{' ' * left}{'#' * size}{' ' * (WIDTH - left - size)}|"


def traces(body):
    """Spans of one request each."""
    spans = [span for part in body["resourceSpans"] for scope in part["scopeSpans"] for span in scope["spans"]]
    for root in (span for span in spans if span["kind"] == 2):
        yield [root] + [span for span in spans if span.get("parentSpanId") == root["spanId"] and span["kind"] == 1]


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")
        for spans in traces(body):
            print("\n".join(draw(spans)), flush=True)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=4318)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Collector)
    print(f"collecting on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
