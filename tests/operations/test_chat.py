# SPDX-License-Identifier: MIT
"""`beamline chat`, piped and in a terminal, with a scripted server."""
import http.server
import json
import os
import pty
import select
import subprocess
import tempfile
import threading
import time
import unittest

from served import SERVER


class Model(http.server.BaseHTTPRequestHandler):
    """POST /v1/chat/completions: answers with the last message in capitals, word by word; "forever" never ends, "broken" fails
    midway, "refused" at once."""

    def log_message(self, *words):
        pass

    def send_event(self, event):
        self.wfile.write(f"data: {json.dumps(event) if event else '[DONE]'}\n\n".encode())
        self.wfile.flush()

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((request, self.headers.get("Authorization")))
        text = request["messages"][-1]["content"]
        if text == "refused":
            body = json.dumps({"error": {"message": "no such model", "code": "model_not_found"}}).encode()
            self.send_response(404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b": alive\n\n")
        self.send_event({"choices": [{"delta": {"role": "assistant"}}]})
        if text == "think":
            self.send_event({"choices": [{"delta": {"reasoning_content": "hm"}}]})
        try:
            while text == "forever":
                self.send_event({"choices": [{"delta": {"content": "more "}}]})
                time.sleep(0.02)
        except OSError:
            self.server.left.set()
            return
        for word in text.split(" "):
            self.send_event({"choices": [{"delta": {"content": word.upper() + " "}}]})
        self.send_event({"error": {"message": "the device failed"}} if text == "broken" else {"choices": [{"delta": {}, "finish_reason": "stop"}]})
        self.send_event(None)


class Chat(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
        self.server.asked, self.server.left = [], threading.Event()
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def pipe(self, text, *arguments, status=0, **env):
        done = subprocess.run([SERVER, "chat", *arguments], input=text, capture_output=True, text=True, timeout=60, env={**os.environ, "BEAMLINE_URL": self.url, **env}, check=False)
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def test_piped(self):
        out, _ = self.pipe("what is\nthis\n\n", "smol", "--system", "Be brief.", "--max-tokens", "9", "--temperature", "0", BEAMLINE_KEY="bl-key")
        self.assertEqual("WHAT IS\nTHIS \n", out)
        request, key = self.server.asked[0]
        self.assertEqual("Bearer bl-key", key)
        self.assertEqual({"model": "smol", "stream": True, "max_tokens": 9, "temperature": 0,
                          "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "what is\nthis"}]}, request)
        self.assertEqual("THINK \n", self.pipe("think", "--url", self.url)[0])
        self.assertNotIn("model", self.server.asked[1][0])

    def test_failures(self):
        self.assertIn("no such model", self.pipe("refused", status=1)[1])
        out, told = self.pipe("broken", status=1)
        self.assertEqual("BROKEN \n", out)
        self.assertIn("the device failed", told)
        self.assertIn("no message", self.pipe("", status=1)[1])
        self.assertIn("no answer", self.pipe("x", status=3, BEAMLINE_URL="http://127.0.0.1:1")[1])
        self.assertIn("--nothing", self.pipe("x", "--nothing", status=2)[1])
        self.assertIn("--max-tokens", self.pipe("x", "--max-tokens", "many", status=2)[1])

    def test_in_a_terminal(self):
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        process = subprocess.Popen([SERVER, "chat", "smol"], stdin=terminal, stdout=terminal, stderr=terminal, env={**os.environ, "BEAMLINE_URL": self.url, "TERM": "xterm"}, start_new_session=True,
                                   preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0))
        os.close(terminal)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        unread = [b""]

        def until(word):
            """Returns the output up to |word|."""
            while word not in unread[0]:
                ready, _, _ = select.select([controller], [], [], 20)
                self.assertTrue(ready, f"no {word} after {unread[0]}")
                unread[0] += os.read(controller, 4096)
            seen, _, unread[0] = unread[0].partition(word)
            return seen + word

        def say(text):
            os.write(controller, text)

        until(b"> ")
        say(b"hello\n")
        until(b"HELLO")
        until(b"> ")
        say(b"two \\\nlines\n")
        until(b"LINES")
        until(b"> ")
        self.assertEqual(["hello", "HELLO ", "two \nlines"], [message["content"] for message in self.server.asked[-1][0]["messages"]])
        say(b"forever\n")
        until(b"more more")
        say(b"\x03")
        until(b"\n> ")
        self.assertTrue(self.server.left.wait(20))
        say(b"half a line\x03")
        until(b"> ")
        say(b"/regen\n")
        until(b"more more")
        say(b"\x03")
        until(b"\n> ")
        self.assertEqual("forever", self.server.asked[-1][0]["messages"][-1]["content"])
        say(b"/system Be kind.\n")
        until(b"> ")
        say(b"refused\n")
        until(b"no such model")
        until(b"> ")
        say(b"\x1b[31mred\n")  # terminal escapes are not printed
        self.assertNotIn(b"\x1b[31M", until(b"RED").replace(b"^[", b""))
        until(b"> ")
        self.assertEqual(["Be kind.", "\x1b[31mred"], [message["content"] for message in self.server.asked[-1][0]["messages"]])
        with tempfile.TemporaryDirectory() as folder:
            say(f"/save {folder}/talk.json\n".encode())
            until(b"> ")
            with open(f"{folder}/talk.json", encoding="utf-8") as file:
                self.assertEqual(3, len(json.load(file)))
        say(b"/nothing\n")
        until(b"/regen")
        until(b"> ")
        say(b"/quit\n")
        self.assertEqual(0, process.wait(20))


if __name__ == "__main__":
    unittest.main()
