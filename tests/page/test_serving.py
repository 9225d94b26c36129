# SPDX-License-Identifier: MIT
"""The files of the page: contents, sizes and headers."""
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from served import ROOT, ServedCase

MOST_BYTES = 90 * 1024  # limit of the whole page, compressed
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
          "frame-ancestors 'none'; require-trusted-types-for 'script'")
HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "accept-encoding": "gzip"}


class Serving(ServedCase):
    options = ("--backends", "interp")

    def get(self, path, **headers):
        """Returns (status, headers, body)."""
        request = urllib.request.Request(self.server.url + path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.headers, refused.read()

    def files(self):
        """Returns {name: compressed bytes} of the page: follows the references from the first file."""
        found, names = {}, ["index.html"]
        while names:
            name = names.pop()
            if name in found:
                continue
            status, headers, body = self.get(f"/ui/{name}", accept_encoding="gzip")
            self.assertEqual((200, "gzip"), (status, headers["content-encoding"]), name)
            found[name] = body
            text = gzip.decompress(body).decode()
            names += re.findall(r'"(?:/ui|\.)/([\w.-]+\.(?:js|css|html))"', text)
        return found

    def test_whole_page_is_small(self):
        sizes = {name: len(body) for name, body in self.files().items()}
        print("note: the page, compressed:", sum(sizes.values()), "bytes;", ", ".join(f"{name} {size}" for name, size in sorted(sizes.items(), key=lambda each: -each[1])))
        self.assertIn("page.js", sizes)
        self.assertIn("uPlot.iife.min.js", sizes)
        self.assertLessEqual(sum(sizes.values()), MOST_BYTES)

    def test_headers(self):
        for name in ("index.html", "page.js", "page.css"):
            status, headers, _ = self.get(f"/ui/{name}")
            self.assertEqual((200, POLICY, "nosniff", "no-referrer", "no-cache"), (status, headers["content-security-policy"], headers["x-content-type-options"],
                                                                                   headers["referrer-policy"], headers["cache-control"]))

    def test_a_browser_gets_the_page_and_others_get_links(self):
        browser, other = self.get("/", **HTML)[2], self.get("/", accept="*/*")[2]
        self.assertEqual(gzip.decompress(browser), self.get("/ui/index.html")[2])
        self.assertIn(b"/openapi.json", other)
        self.assertNotIn(b"page.js", other)

    def test_a_server_without_the_page(self):
        """With -Dpage=false the program has only the API description; a browser gets the answer for other clients, see
        test_a_browser_gets_the_page_and_others_get_links."""
        with tempfile.TemporaryDirectory() as folder:
            for folders, wanted in (([], {"openapi.json"}), ([ROOT / "server" / "page"], {"openapi.json", *self.files()})):
                subprocess.run([sys.executable, ROOT / "server" / "http" / "embed.py", f"{folder}/out.c", f"{folder}/out.d", ROOT / "proto" / "openapi.yaml", *folders], check=True)
                self.assertEqual(wanted, set(re.findall(r'^ {4}\{"([^"]+)"', pathlib.Path(folder, "out.c").read_text(), re.M)))

    def test_coded_and_plain_are_the_same(self):
        for name, body in self.files().items():
            self.assertEqual(gzip.decompress(body), self.get(f"/ui/{name}")[2], name)
        self.assertEqual(self.get("/openapi.json")[2], gzip.decompress(self.get("/openapi.json", accept_encoding="gzip")[2]))

    def test_etag(self):
        _, headers, body = self.get("/ui/page.js")
        self.assertGreater(len(body), 1000)
        status, again, body = self.get("/ui/page.js", if_none_match=headers["etag"])
        self.assertEqual((304, headers["etag"], b""), (status, again["etag"], body))
        self.assertEqual(200, self.get("/ui/page.js", if_none_match='"other"')[0])

    def test_other_names_are_unknown(self):
        for name in ("nothing.js", "..%2f..%2fmeson.build", "%2e%2e/page.js", "page.js%00", "PAGE.JS", ""):
            status, headers, body = self.get(f"/ui/{name}")
            self.assertIn(status, (400, 404), name)
            self.assertEqual("application/problem+json", headers["content-type"])
            json.loads(body)


if __name__ == "__main__":
    unittest.main()
