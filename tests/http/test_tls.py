# SPDX-License-Identifier: MIT
"""The server with TLS."""

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor

from fixture import JSON, OCTETS, PROGRAM, ROOT, SAFETENSORS, Server, graph, read_safetensors


def certificate(folder, name="server"):
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.cert, cls.key_file = certificate(cls.folder.name)
        made = subprocess.run([PROGRAM, "keys", "create", "me", "--scopes", "run", "--state", cls.folder.name], capture_output=True, text=True, check=True)
        cls.key = made.stdout.strip()
        cls.server = Server("--state", cls.folder.name, "--tls-cert", cls.cert, "--tls-key", cls.key_file, "--idle-timeout", "5")
        cls.context = ssl.create_default_context(cafile=cls.cert)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        cls.folder.cleanup()
        if status != 0:
            raise AssertionError(f"the server ended with {status}:\n" + cls.server.log_text()[-3000:])

    def connect(self):
        link = http.client.HTTPSConnection("127.0.0.1", self.server.port, context=self.context, timeout=30)
        self.addCleanup(link.close)
        return link

    def ask(self, link, method, path, body=None, headers=None):
        link.request(method, path, json.dumps(body) if isinstance(body, (dict, list)) else body, {"authorization": "Bearer " + self.key, **JSON, **(headers or {})} if body is not None
                     else {"authorization": "Bearer " + self.key, **(headers or {})})
        reply = link.getresponse()
        return reply.status, reply.read()

    def test_requests_on_one_connection(self):
        link = self.connect()
        for _ in range(20):
            status, body = self.ask(link, "POST", "/api/v1/run", graph())
            self.assertEqual((200, [2, 4]), (status, json.loads(body)["outputs"]["y"]["data"]))
        self.assertEqual(404, self.ask(link, "GET", "/api/v1/tensors/none")[0])
        self.assertIn(link.sock.version(), ("TLSv1.2", "TLSv1.3"))

    def test_large_bodies_both_ways(self):
        n = 3000000
        data = struct.pack("<f", 1.5) * n
        link = self.connect()
        self.assertEqual(201, self.ask(link, "PUT", f"/api/v1/tensors/big?dtype=float32&shape={n}", data, OCTETS)[0])
        status, body = self.ask(link, "GET", "/api/v1/tensors/big", None, {"accept": SAFETENSORS})
        self.assertEqual(200, status)
        self.assertEqual(data, read_safetensors(body)[0]["big"][2])
        self.assertEqual(data, self.ask(link, "GET", "/api/v1/tensors/big", None, {"accept": "application/octet-stream"})[1])

    def test_many_at_once(self):
        def one(_):
            link = http.client.HTTPSConnection("127.0.0.1", self.server.port, context=self.context, timeout=60)
            try:
                return [self.ask(link, "POST", "/api/v1/run", graph())[0] for _ in range(10)]
            finally:
                link.close()
        with ThreadPoolExecutor(16) as pool:
            self.assertEqual({200}, {status for statuses in pool.map(one, range(32)) for status in statuses})

    def test_whoever_does_not_speak_tls(self):
        """Plain text, silence, half a handshake and noise: other clients are answered meanwhile, and the connection is closed
        in time."""
        odd = []
        for data in (b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"", b"\x16\x03\x01\x02\x00\x01", os.urandom(300)):
            sock = socket.create_connection(("127.0.0.1", self.server.port))
            self.addCleanup(sock.close)
            sock.sendall(data)
            odd.append(sock)
        begin = time.monotonic()
        self.assertEqual(200, self.ask(self.connect(), "GET", "/v2")[0])
        self.assertLess(time.monotonic() - begin, 3)
        for sock in odd:
            sock.settimeout(20)
            try:
                got = b""
                while part := sock.recv(4096):
                    got += part
            except ConnectionResetError:
                pass
            self.assertNotIn(b"HTTP/1.1 200", got)

    def test_old_versions_are_refused(self):
        context = ssl.create_default_context(cafile=self.cert)
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", self.server.port)) as sock, self.assertRaises((ssl.SSLError, ConnectionResetError)):
            context.wrap_socket(sock, server_hostname="localhost")

    def test_a_client_that_goes_away(self):
        program = {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": []}}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}], "updates": {"n": "m"}, "outputs": ["m"]}
        self.assertEqual(201, self.ask(self.connect(), "PUT", "/api/v1/programs/p", program)[0])
        link = self.connect()
        link.request("POST", "/api/v1/programs/p/run", json.dumps({"steps": 1000000000}), {"authorization": "Bearer " + self.key, **JSON})
        time.sleep(0.5)
        link.sock.close()
        link.close()
        begin = time.monotonic()
        self.assertEqual(200, self.ask(self.connect(), "POST", "/api/v1/programs/p/run", {"steps": 1})[0])  # waits for the end of the other run
        self.assertLess(time.monotonic() - begin, 5)

    def test_python_client(self):
        program = f"import beamline; c = beamline.Client('https://127.0.0.1:{self.server.port}'); c.put('x', [1, 2]); print(c.get('x').tolist())"
        env = {**os.environ, "PYTHONPATH": ROOT + "/clients/python", "BEAMLINE_KEY": self.key, "SSL_CERT_FILE": self.cert}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
        self.assertEqual((0, "[1.0, 2.0]\n"), (done.returncode, done.stdout), done.stderr)


class Reload(unittest.TestCase):
    """SIGHUP reads certificate and key again."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.pairs = [certificate(folder.name, name) for name in ("first", "second")]
        self.use(*self.pairs[0])
        self.config = os.path.join(folder.name, "beamline.conf")
        self.configure("now")
        self.server = Server("--backends", "interp", "--log-level", "info", "--config", self.config)
        self.addCleanup(self.server.stop)

    def use(self, cert, key):
        for path, end in ((cert, ".pem"), (key, ".key")):
            shutil.copy(path, os.path.join(self.folder, "now" + end))

    def configure(self, name):
        with open(self.config, "w") as file:
            file.write(f"tls-cert = {self.folder}/{name}.pem\ntls-key = {self.folder}/{name}.key\n")

    def shown(self):
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", self.server.port)))

    def der(self, number):
        with open(self.pairs[number][0]) as file:
            return ssl.PEM_cert_to_DER_cert(file.read())

    def is_pair(self, number):
        self.assertEqual(self.der(number), self.shown())

    def reload(self, words="reloaded"):
        def count(lines):
            return sum(words in line for line in lines)
        before = count(self.server.log_text().splitlines())
        self.server.process.send_signal(signal.SIGHUP)
        self.assertEqual(before + 1, count(self.server.wait_log(lambda lines: count(lines) > before, 60)))

    def open_link(self, number):
        link = http.client.HTTPSConnection("127.0.0.1", self.server.port, context=ssl.create_default_context(cafile=self.pairs[number][0]), timeout=30)
        self.addCleanup(link.close)
        link.connect()
        return link

    def ask(self, link):
        link.request("POST", "/api/v1/run", json.dumps(graph()), JSON)
        reply = link.getresponse()
        self.assertEqual((200, [2, 4]), (reply.status, json.loads(reply.read())["outputs"]["y"]["data"]))

    def test_t25_another_certificate(self):
        self.is_pair(0)
        old = self.open_link(0)
        self.ask(old)
        sock = old.sock
        self.use(*self.pairs[1])
        self.is_pair(0)  # before SIGHUP
        self.reload()
        self.is_pair(1)
        self.ask(self.open_link(1))
        self.ask(old)
        self.assertIs(sock, old.sock)  # the connection continues
        with self.assertRaises(ssl.SSLError):
            self.open_link(0)
        self.configure("first")  # other files
        self.reload()
        self.is_pair(0)
        self.ask(old)

    def test_t25_a_bad_one_changes_nothing(self):
        _, key = self.pairs[1]
        for cert, secret, words in ((self.pairs[0][0], key, "--tls-cert and --tls-key: "), (os.devnull, key, "it is empty"), (key, key, "--tls-cert and --tls-key: ")):
            self.use(cert, secret)
            self.reload("reload: the certificate: ")
            self.assertIn(words, self.server.log_text())
            self.assertIn("the old value stays", self.server.log_text())
            self.assertNotIn("PRIVATE", self.server.log_text())
            self.is_pair(0)
        with open(self.config, "w"):
            pass  # no TLS
        self.reload("to end TLS, restart the server")
        self.is_pair(0)
        self.configure("second")
        self.reload()
        self.is_pair(1)

    def test_while_it_is_asked(self):
        """Concurrent handshakes and reloads: each handshake uses one consistent pair of certificate and key."""
        stop, failed = threading.Event(), []
        context = ssl.create_default_context()
        for cert, _ in self.pairs:
            context.load_verify_locations(cert)

        def ask():
            while not stop.is_set():
                link = http.client.HTTPSConnection("127.0.0.1", self.server.port, context=context, timeout=30)
                try:
                    self.ask(link)
                except Exception as error:
                    failed.append(error)
                    return
                finally:
                    link.close()
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(20):
            self.use(*self.pairs[(i + 1) % 2])
            self.server.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + 60
            while self.shown() != self.der((i + 1) % 2):
                self.assertLess(time.monotonic(), end)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual([], failed)


class Words(unittest.TestCase):
    def test_what_cannot_be(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = certificate(folder)
            other, _ = certificate(folder, "other")
            empty = os.path.join(folder, "empty")
            open(empty, "w").close()
            for words, says in ((("--tls-cert", cert), "go together"), (("--tls-key", key), "go together"), (("--tls-cert", other, "--tls-key", key), "tls-key: "),
                                (("--tls-cert", empty, "--tls-key", key), "empty"), (("--tls-cert", folder + "/none", "--tls-key", key), "No such file"),
                                (("--tls-cert", key, "--tls-key", key), "tls-cert")):
                run = subprocess.run([PROGRAM, "serve", "--port", "0", "--state", "none", *words], capture_output=True, text=True, timeout=60)
                self.assertEqual(1, run.returncode, words)
                self.assertIn(says, run.stderr)
                self.assertNotIn("PRIVATE", run.stderr)


if __name__ == "__main__":
    unittest.main()
