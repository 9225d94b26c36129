# SPDX-License-Identifier: MIT
"""The first screen, keys, and a server that disconnects and returns."""
import re
import time
import unittest

from browser import NARROW, BrowserCase, Keys
from served import Server

FIRST_SCREEN = 0.3  # seconds, on the loopback


class Frame(BrowserCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.serve()

    def test_first_screen(self):
        took = []
        for _ in range(3):
            page = self.open(self.server.url)
            page.wait_for_selector("text=interp:0 is free.")
            took.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000)
            asked = [url.removeprefix(self.server.url) for url in page.requests if not url.startswith("data:")]
            self.assertEqual(["/", "/ui/page.css", "/ui/page.js"], sorted(url for url in asked if "/api/" not in url))
            self.assertEqual(["/api/v1/me", "/api/v1/now", "/api/v1/now/history?seconds=600"], sorted(url for url in asked if "/api/" in url))
        self.assertLessEqual(min(took), FIRST_SCREEN)

    def test_no_axe_violation_and_no_sideways_scrolling(self):
        for scheme in ("light", "dark"):
            for viewport in (None, NARROW):
                page = self.open(self.server.url, scheme=scheme, viewport=viewport)
                page.wait_for_selector("text=interp:0 is free.")
                self.check_axe(page, scheme)
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth - innerWidth"), 0)

    def test_theme_is_kept(self):
        page = self.open(self.server.url)
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_label("Colours").select_option("dark")
        after = page.evaluate("getComputedStyle(document.body).backgroundColor")
        self.assertNotEqual(before, after)
        page.reload()
        self.assertEqual(after, page.evaluate("getComputedStyle(document.body).backgroundColor"))

    def test_keyboard(self):
        page = self.open(self.server.url + "/#/api")
        page.wait_for_selector("h1:has-text('API')")
        page.keyboard.press("Tab")
        self.assertEqual("Skip to the content", page.evaluate("document.activeElement.textContent"))
        for _ in range(2):
            page.keyboard.press("Tab")
        self.assertEqual("Now", page.evaluate("document.activeElement.textContent"))
        self.assertNotEqual("none", page.evaluate("getComputedStyle(document.activeElement).outlineStyle"))
        page.keyboard.press("Enter")
        page.wait_for_selector("text=interp:0 is free.")

    def test_a_server_that_restarts(self):
        server = Server("--backends", "interp")
        page = self.open(server.url, expect=["Failed to load resource"])
        page.wait_for_selector("text=interp:0 is free.")
        port = server.port
        server.stop()
        page.wait_for_selector("text=The server does not answer")
        again = Server("--backends", "interp", "--port", str(port))
        self.addCleanup(again.stop)
        page.wait_for_selector("text=The server does not answer", state="detached", timeout=30000)
        page.wait_for_selector("text=interp:0 is free.")


class WithKeys(BrowserCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.keys = Keys(cls)
        cls.reader, cls.user, cls.admin = cls.keys.make("reader", "infer"), cls.keys.make("user", "run,train,infer"), cls.keys.make("admin", "admin,run,train,infer,metrics")
        cls.server = cls.serve("--state", cls.keys.folder.name)

    def test_asks_for_a_key_and_takes_one(self):
        page = self.open(self.server.url, expect=["401"])
        page.get_by_label("Key", exact=True).fill("bl_wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=does not know this key")
        self.check_axe(page, "key")
        page.get_by_label("Key", exact=True).fill(self.user)
        page.keyboard.press("Enter")
        page.wait_for_selector("text=interp:0 is free.")
        self.assertEqual("user", page.locator(".who").text_content())
        self.assertNotIn(self.user, page.content())
        page.get_by_text("Sign out").click()
        page.wait_for_selector("text=This server asks for a key")

    def test_a_key_sees_what_it_is_good_for(self):
        for key, shown, hidden in ((self.reader, ["Now", "API"], ["Jobs"]), (self.user, ["Now", "Jobs"], []), (self.admin, ["Now", "Jobs"], [])):
            page = self.open(self.server.url, key=key)
            page.wait_for_selector("text=interp:0 is free.")
            links = page.locator("nav a").all_text_contents()
            self.assertTrue(set(shown) <= set(links) and not set(hidden) & set(links), links)

    def test_an_address_that_the_key_is_not_good_for(self):
        page = self.open(self.server.url + "/#/jobs", key=self.reader)
        page.wait_for_selector("text=needs the scope train")

    def test_a_key_that_is_revoked_under_it(self):
        key = self.keys.make("passing", "run,train")
        page = self.open(self.server.url, key=key, expect=["401"])
        deadline = time.monotonic() + 5
        while not re.search("is free", page.content()) and time.monotonic() < deadline:
            time.sleep(0.1)
        import subprocess
        from served import SERVER
        subprocess.run([SERVER, "keys", "revoke", "passing", "--state", self.keys.folder.name], check=True, capture_output=True)
        page.wait_for_selector("text=not any more")


if __name__ == "__main__":
    unittest.main()
