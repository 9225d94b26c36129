# SPDX-License-Identifier: MIT
"""A session after a server restart or the end of its lease: work that continues, lost Tensors, and the errors."""
import socket
import threading
import unittest

import beamline
from beamline import Device, Tensor, TensorLost, TinyJit, nn
from beamline.train import DataLoader, Learner
from served import Server
from tensors import INTERPRETER, TensorCase


class RestartTest(TensorCase):
    def end_lease(self):
        Device.session.call("DELETE", f"/api/v1/leases/{Device.session.lease}")

    def restart(self):
        """Starts another server at the same address."""
        cls = type(self)
        self.assertEqual(cls.server.stop(), 0)
        self.assertRaises(ConnectionRefusedError, (Tensor([1.0]) + 1).tolist)
        cls.server = Server(*INTERPRETER, "--port", str(cls.server.port))
        self.client.wait_ready()

    def test_what_is_known_here_goes_on(self):
        for end in (self.end_lease, self.restart):
            big = list(range(1000))
            lazy = Tensor(big) * 2                # not sent to the server
            small = Tensor([1.0, 2]).realize()    # sent, but this process also has the values
            whole = Tensor.arange(5).contiguous()
            half = whole * 0.5
            half.realize()
            made = Tensor.full((3,), 7.0).realize()
            drawn = Tensor.rand(4)
            after = drawn * 0 + 1                 # independent of the values of drawn, which was never computed
            end()
            self.assertEqual((lazy.tolist(), small.tolist()), ([2 * each for each in big], [1, 2]))
            self.assertEqual(((small + 1).tolist(), made.tolist(), after.tolist()), ([2, 3], [7, 7, 7], [1, 1, 1, 1]))
            self.assertEqual((whole + 1).tolist(), [1, 2, 3, 4, 5])

    def test_what_is_lost_is_named_when_used(self):
        for end in (self.end_lease, self.restart):
            lost, drawn, other = (Tensor(list(range(1000))) * 2).realize(), Tensor.rand(3, 5).realize(), Tensor.ones(3, 5)
            uses = (lost.tolist, (lost + 1).realize, lambda: (drawn @ other.T).numpy(), lost.sum().item)  # pylint: disable=cell-var-from-loop
            end()
            for use in uses:
                with self.assertRaises(TensorLost) as caught:
                    use()
                self.assertRegex(str(caught.exception), r"Tensor \((1000,|3, 5)\) dtypes\.(int|float)\b.* the server at "
                                 f"{self.server.url}.*restarted.*make the Tensor again")
            self.assertEqual((other + 1).tolist(), [[2] * 5] * 3)
            lost.assign(Tensor([3] * 1000))
            self.assertEqual((lost.sum() + 1).item(), 3001)

    def test_names_of_dead_tensors_are_not_taken_for_others(self):
        x, y = (Tensor([1.0] * 300) + 1).realize(), (Tensor([5.0] * 300) + 1).realize()
        self.end_lease()
        z = (Tensor([8.0] * 300) + 1).realize()
        del x
        w = (Tensor([20.0] * 300) + 1).realize()
        self.assertRaises(TensorLost, y.tolist)
        del y
        self.assertEqual(((Tensor([30.0]) + 1).item(), z.tolist(), w.tolist()), (31, [9] * 300, [21] * 300))

    def test_a_captured_function_goes_on(self):
        calls, scale = [], Tensor([3.0])

        @TinyJit
        def f(x):
            calls.append(1)
            return (x * scale + Tensor([0.5] * 1000)).max()
        for i in range(3):
            self.assertEqual(f(Tensor([1.0 * i])).item(), 3 * i + 0.5)
        for end in (self.end_lease, self.restart):
            end()
            for _ in range(3):
                self.assertEqual(f(Tensor([2.0])).item(), 6.5)
        self.assertEqual(len(calls), 2)

    def test_a_captured_function_names_what_is_lost(self):
        w = Tensor.rand(40, 40).realize()
        f = TinyJit(lambda x: x @ w)
        for _ in range(3):
            f(Tensor.ones(2, 40))
        self.end_lease()
        self.assertRaisesRegex(TensorLost, r"Tensor \(40, 40\)", f, Tensor.ones(2, 40))
        w.assign(Tensor.ones(40, 40))
        self.assertEqual(f(Tensor.ones(2, 40)).tolist(), [[40] * 40] * 2)

    def test_a_learner(self):
        data = DataLoader(Tensor.rand(32, 4).realize(), Tensor.randint(32, high=2).realize(), batch_size=8)
        model = nn.Linear(4, 2)
        learner = Learner(model, data)
        learner.fit(1, progress=False)
        self.end_lease()
        self.assertRaisesRegex(TensorLost, "load a checkpoint", learner.fit, 1, False)
        self.assertRaisesRegex(TensorLost, "make the Tensor again, or load it", learner.fit, 1, False)

    def test_another_server(self):
        old = (Tensor([1.0] * 300) + 1).realize()
        url, other = self.server.url, Server(*INTERPRETER)
        try:
            Device.connect(other.url)
            new = (Tensor([5.0] * 300) + 1).realize()
            self.assertRaisesRegex(TensorLost, url, old.tolist)
            self.assertEqual(new.tolist(), [6] * 300)
        finally:
            Device.connect(url)
            other.stop()
        self.assertRaises(TensorLost, new.tolist)

    def test_errors_name_the_address(self):
        server = Server(*INTERPRETER)
        port = server.port
        server.stop()
        for call in (beamline.Client(server.url).devices, lambda: Device.connect(server.url) or (Tensor([1.0]) + 1).tolist()):
            with self.assertRaises(ConnectionRefusedError) as caught:
                call()
            self.assertIn(f"no server answers at {server.url} (Connection refused): start one (beamline serve --port {port}), or set BEAMLINE_URL",
                          str(caught.exception))
        Device.connect(self.server.url)
        with self.assertRaisesRegex(OSError, "no server answers at http://no-such-host.invalid:8470 "):
            beamline.Client("http://no-such-host.invalid").devices()

    def test_answers_that_break_off_name_the_address(self):
        """Answers that end before the head, in the head, in a body with a length, and in chunks, of an exchange and of a
        stream: the error names the address."""
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        for sent in ("", head, head + "Content-Length: 50\r\n\r\n{}", head + "Transfer-Encoding: chunked\r\n\r\n9\r\n{}"):
            listener = socket.create_server(("127.0.0.1", 0))

            def answer(listener=listener, sent=sent):
                for _ in range(2):
                    link, _ = listener.accept()
                    with link:
                        link.recv(65536)
                        link.sendall(sent.encode())
            thread = threading.Thread(target=answer)
            thread.start()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            connection = beamline.Client(url).connection
            words = f"^the connection to the server at {url} broke .*check that the server runs, then try again"
            with self.assertRaisesRegex(OSError, words):
                connection.exchange("GET", "/", None, {})
            with self.assertRaisesRegex(OSError, words), connection.stream("GET", "/") as lines:
                lines.read()
            thread.join()
            listener.close()


if __name__ == "__main__":
    unittest.main()
