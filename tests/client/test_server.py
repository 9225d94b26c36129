# SPDX-License-Identifier: MIT
"""The Python client with a server that uses the interpreter device and needs no driver."""
import math
import pathlib
import re
import tempfile
import threading
import unittest

import beamline
from beamline.values import NUMPY_DTYPES, numpy
from cutting import Cutter
from served import ROOT, Server, ServedCase

INTERPRETER = ("--backends", "interp", "--log-level", "error")


class ClientCase(ServedCase):
    options = INTERPRETER


def double():
    """A graph: y = 2 x."""
    g = beamline.Graph()
    g.output(y=g.input("x") * 2)
    return g


def line():
    """A program that fits a line by gradient descent."""
    p = beamline.Program(w=[0.0], b=beamline.Init("zeros", shape=[1]))
    g = p.entry()
    x, t = g.input("x", [4]), g.input("t", [4])
    w, b = g.state("w"), g.state("b")
    loss = ((x * w + b - t) ** 2).mean()
    w1, b1 = loss.adam([w, b], lr=0.1, name="adam")
    g.update({"w": w1, "b": b1}).output(loss=loss)
    return p


def field(number, data):
    """Encodes a field of a protobuf message: an integer, or bytes."""
    return bytes([number << 3, data]) if isinstance(data, int) else bytes([number << 3 | 2, len(data)]) + data


def relu(op=b"Relu"):
    """Encodes an ONNX model: y = op(x), float32 of [batch, 2]."""
    def value(name):
        sizes = field(1, field(2, b"batch")) + field(1, field(1, 2))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, sizes)))
    graph = field(1, field(1, b"x") + field(2, b"y") + field(3, b"first") + field(4, op)) + field(2, b"g") + field(11, value(b"x")) + field(12, value(b"y"))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


POINTS = {"x": [0, 1, 2, 3], "t": [1, 3, 5, 7]}


class RunTest(ClientCase):
    def test_both_wires_with_and_without_numpy(self):
        for binary in (True, False):
            for use_numpy in {False, numpy is not None}:
                with self.subTest(binary=binary, use_numpy=use_numpy):
                    client = beamline.Client(self.server.url, binary=binary, use_numpy=use_numpy)
                    result = client.run(double(), {"x": [[1, 2], [3, math.inf]]})
                    self.assertEqual(result["y"].tolist(), [[2, 4], [6, math.inf]])
                    self.assertEqual(isinstance(result["y"], beamline.Array), not use_numpy)
                    self.assertEqual(result.stats["device"], "interp:0")
                    client.close()

    def test_integers_are_exact(self):
        g = beamline.Graph()
        x = g.input("x", dtype="int64")
        g.output(y=x + 1)
        for binary in (True, False):
            client = beamline.Client(self.server.url, binary=binary)
            self.assertEqual(client.run(g, {"x": [2**62 + 1, -2**63]})["y"].tolist(), [2**62 + 2, -2**63 + 1])
            client.close()

    def test_every_dtype_there_and_back(self):
        for dtype in beamline.values.DTYPES:
            g = beamline.Graph()
            g.output(y=g.input("x", dtype=dtype).flip())
            for binary in (True, False):
                client = beamline.Client(self.server.url, binary=binary)
                with self.subTest(dtype, binary=binary):
                    self.assertEqual(client.run(g, {"x": [0, 1]})["y"].tolist(), [1, 0])
                client.close()

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numpy(self):
        given = numpy.arange(6, dtype="float32").reshape(2, 3).T
        result = self.client.run(double(), {"x": given})
        self.assertEqual(result["y"].dtype, numpy.float32)
        self.assertTrue((result["y"] == 2 * given).all())
        self.assertEqual(self.client.run(double(), {"x": numpy.float32(4)})["y"].item(), 8)
        self.assertLessEqual(NUMPY_DTYPES, set(beamline.values.DTYPES))

    def test_gradients(self):
        g = beamline.Graph()
        a, b = g.input("a"), g.input("b")
        c = a * b + a
        da, db = g.grad(c.sum(), [a, b])
        g.output(c, da=da, db=db)
        result = self.client.run(g, {"a": [1, 2, 3], "b": [4, 5, 6]})
        self.assertEqual([value.tolist() for value in result.values()], [[5, 12, 21], [5, 6, 7], [1, 2, 3]])

    def test_indexing(self):
        x = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        g = beamline.Graph()
        h = g.input("x")
        cases = {"row": (h[1], x[1]), "last": (h[-1], x[-1]), "number": (h[1, -2], 6), "part": (h[:2, 1:3], [[1, 2], [5, 6]]),
                 "strided": (h[..., ::2], [[0, 2], [4, 6], [8, 10]]), "tail": (h[-2:, -1:], [[7], [11]]), "column": (h[..., 2], [2, 6, 10])}
        g.output(**{name: tensor for name, (tensor, _) in cases.items()})
        result = self.client.run(g, {"x": x})
        for name, (_, expected) in cases.items():
            self.assertEqual(result[name].tolist(), expected, name)

    def test_named_dimensions_share_a_plan(self):
        g = beamline.Graph()
        x = g.input("x", [g.dim("n", 1, 8), 2])
        g.output(s=x.sum(axis=0))
        self.assertEqual(self.client.run(g, {"x": [[1, 2]]})["s"].tolist(), [1, 2])
        again = self.client.run(g, {"x": [[1, 2], [3, 4], [5, 6]]})
        self.assertEqual((again["s"].tolist(), again.stats["plan"]), ([9, 12], "cached"))

    def test_named_dimensions_in_steps(self):
        g = beamline.Graph()
        x = g.input("x", [g.dim("n", 1, 9, 4)])
        g.output(y=x.reshape(["n // 4", 4]).sum(axis=1))
        self.assertEqual(self.client.run(g, {"x": list(range(8))})["y"].tolist(), [6, 22])
        with self.assertRaisesRegex(beamline.BeamlineError, "4 to 8 in steps of 4"):
            self.client.run(g, {"x": list(range(6))})

    def test_a_document_as_the_wire_has_it(self):
        result = self.client.run({"inputs": {"x": [1, 2]}, "nodes": [{"id": "y", "op": "neg", "in": ["x"]}], "outputs": ["y"]})
        self.assertEqual(result["y"].tolist(), [-1, -2])

    def test_seed_decides(self):
        g = beamline.Graph()
        g.output(x=g.uniform([4]))
        first, again, other = (self.client.run(g, seed=seed)["x"].tolist() for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_threads_share_a_client(self):
        failures = []

        def work(number):
            try:
                for i in range(20):
                    got = self.client.run(double(), {"x": [number, i]})["y"].tolist()
                    if got != [2 * number, 2 * i]:
                        failures.append(got)
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class ErrorTest(ClientCase):
    def test_kinds(self):
        g = beamline.Graph()
        g.output(g.matmul(g.input("a"), g.input("b"), name="y"))
        with self.assertRaises(beamline.InvalidGraph) as caught:
            self.client.run(g, {"a": [[1, 2, 3]], "b": [[1, 2]]})
        self.assertEqual((caught.exception.status, caught.exception.node), (422, "y"))
        self.assertIn("matmul", caught.exception.detail)
        self.assertIn("[1, 3]", str(caught.exception))
        for kind, call in ((beamline.NotFound, lambda: self.client.get("nothing")),
                           (beamline.NotFound, lambda: self.client.program("nothing")),
                           (beamline.NotFound, lambda: self.client.run(double(), {"x": self.client.tensor("nothing")})),
                           (beamline.Malformed, lambda: self.client.call("POST", "/api/v1/run", {"what": 1})),
                           (beamline.BeamlineError, lambda: self.client.call("POST", "/api/v1/devices", {})),
                           (beamline.InvalidGraph, lambda: self.client.run(double(), {}))):
            self.assertRaises(kind, call)

    def test_no_server(self):
        client = beamline.Client("http://127.0.0.1:1")
        self.assertFalse(client.ready())
        self.assertRaises(OSError, client.devices)
        self.assertRaises(TimeoutError, client.wait_ready, 0)
        self.assertRaises(ValueError, beamline.Client, "ftp://127.0.0.1")

    def test_a_connection_that_the_server_closed(self):
        server = type(self.server)(*INTERPRETER, "--idle-timeout", "1")
        client = beamline.Client(server.url)
        client.devices()
        link = client.connection.local.link
        link.sock.shutdown(1)  # the server sees the end of the stream and closes its side
        link.sock.settimeout(10)
        self.assertEqual(link.sock.recv(1, 2), b"")
        self.assertEqual(client.devices()[0]["id"], "interp:0")
        client.close()
        self.assertEqual(server.stop(), 0)


class TensorTest(ClientCase):
    def test_put_get_delete(self):
        held = self.client.put("a/b", [[1, 2], [3, 4]], "int16")
        self.assertEqual(held.get().tolist(), [[1, 2], [3, 4]])
        self.assertIn(("a/b", "int16", [2, 2], 8), [(t["name"], t["dtype"], t["shape"], t["bytes"]) for t in self.client.tensors()])
        self.assertEqual(self.client.run(double(), {"x": held})["y"].tolist(), [[2, 4], [6, 8]])
        held.delete()
        self.assertRaises(beamline.NotFound, held.get)
        for name in ("p", "q"):
            self.client.put(name, 1)
        self.client.delete("p", "q", "r")
        self.assertEqual(self.client.tensors(), [])

    def test_bytes_and_files(self):
        self.client.put("raw", b"\1\2\3", "uint8", [3])
        self.assertEqual(self.client.get("raw").tolist(), [1, 2, 3])
        with tempfile.TemporaryFile() as file:
            file.write(bytes(range(256)) * 4096)
            file.seek(0)
            self.client.put("raw", file, "uint8", [4096, 256])
        self.assertEqual(self.client.get("raw").tolist()[4095], list(range(256)))
        self.client.delete("raw")

    def test_keep(self):
        g = double()
        result = self.client.run(g, {"x": [1, 2]}, keep={"kept": g.outputs[0]})
        self.assertEqual(result.kept["kept"].get().tolist(), [2, 4])
        self.client.delete("kept")

    def test_lease(self):
        with self.client.lease(30) as mine:
            mine.put("x", [1, 2])
            g = double()
            mine.run(g, {"x": mine.tensor("x")}, keep={"y": g.outputs[0]})
            self.assertEqual(mine.get("y").tolist(), [2, 4])
            self.assertEqual(sorted(tensor["name"] for tensor in mine.tensors()), ["x", "y"])
            self.assertRaises(beamline.NotFound, self.client.get, "x")
            mine.renew(60)
        self.assertRaises(beamline.NotFound, mine.renew)
        self.assertRaises(beamline.NotFound, mine.get, "x")
        mine.end()


class ProgramTest(ClientCase):
    def test_training(self):
        program = self.client.put_program("line", line())
        result = program.run(POINTS, steps=300, collect=["loss"], every=100)
        self.assertLess(result["loss"].item(), 0.01)
        self.assertEqual(len(result.collected["loss"]), 3)
        self.assertEqual(result.collected["loss"].tolist()[-1], result["loss"].item())
        state = program.state()
        self.assertLessEqual({"w", "b", "adam.m.w", "adam.m.b", "adam.v.w", "adam.v.b", "adam.step"}, set(state))
        self.assertEqual(state["adam.step"].item(), 300)
        self.assertAlmostEqual(state["w"].item(), 2, 1)
        program.delete()

    def test_state_goes_back_and_the_steps_repeat(self):
        for binary in (True, False):
            client = beamline.Client(self.server.url, binary=binary)
            program = client.put_program("line", line())
            program.run(POINTS, steps=7)
            state = program.state()
            first = program.run(POINTS, steps=5)["loss"].item()
            program.set_state(state)
            self.assertEqual(program.run(POINTS, steps=5)["loss"].item(), first)
            del state["w"]
            self.assertRaises(beamline.InvalidGraph, program.set_state, state)
            client.close()

    def test_entries_and_what_is_there(self):
        p = beamline.Program(n=beamline.array(5, "int64"))
        up, look = p.entry("up"), p.entry("look")
        up.update({"n": up.state("n") + up.input("by", [], "int64")})
        look.output(now=look.state("n") * 1)
        program = self.client.put_program("count", p)
        program.run({"by": 2**60}, entry="up", steps=2)
        self.assertEqual(int(program.run(entry="look")["now"].item()), 2**61 + 5)
        self.assertRaises(beamline.Conflict, self.client.put_program, "count", p, if_absent=True)
        self.assertIn("count", [each["name"] for each in self.client.programs()])
        self.assertEqual(sorted(self.client.program("count").info["entries"]), ["look", "up"])
        program.delete()
        self.assertRaises(beamline.NotFound, program.run, entry="look")

    def test_keep(self):
        p = beamline.Program()
        g = p.entry()
        x = g.input("x", [2])
        g.output(double=x * 2, half=x / 2)
        with self.client.lease(30) as mine:
            program = mine.put_program("sizes", p)
            for binary in (True, False):
                mine.binary = binary
                result = program.run({"x": [1, 2]}, keep={"kept": "double"})
                self.assertEqual((list(result), result["half"].tolist()), (["half"], [0.5, 1]))
                self.assertEqual(result.kept["kept"].get().tolist(), [2, 4])
                self.assertEqual(program.run({"x": result.kept["kept"]}, keep={"kept": "half", "more": "double"}), {})
                self.assertEqual((mine.get("kept").tolist(), mine.get("more").tolist()), ([1, 2], [4, 8]))
            self.assertRaises(beamline.InvalidGraph, program.run, {"x": [1, 2]}, keep={"kept": "nothing"})
            self.assertRaises(beamline.InvalidGraph, program.run, {"x": [1, 2]}, keep={"a": "half", "b": "half"})
            program.delete()

    def test_held_tensors_as_state(self):
        held = self.client.put("table", [10, 20, 30], "int32")
        p = beamline.Program(copied=held, shared=held.shared())
        g = p.entry()
        g.output(sum=(g.state("copied") + g.state("shared")))
        program = self.client.put_program("tables", p)
        held.delete()
        self.assertEqual(program.run()["sum"].tolist(), [20, 40, 60])
        program.delete()


    def test_numbered_runs_are_applied_once(self):
        """After a lost reply the client repeats a numbered run, and the server does not train twice."""
        program = self.client.put_program("counted", line())
        wire = Cutter(self.server.port, (None, 0), (10, None), (None, 40))
        self.addCleanup(wire.close)
        with beamline.Client(wire.url) as client:
            result = beamline.RemoteProgram(client, "counted", program.info).run(POINTS, steps=5, seq=1)
        self.assertGreaterEqual(wire.opened, 4)
        self.assertEqual((5, result["loss"].item()), (program.state()["adam.step"].item(), program.run(POINTS, steps=5, seq=1)["loss"].item()))
        program.run(POINTS, steps=5, seq=2)
        self.assertEqual(10, program.state()["adam.step"].item())
        with self.assertRaisesRegex(beamline.Conflict, "3"):
            program.run(POINTS, seq=5)
        wire.plan[:] = [(None, 0)]
        with beamline.Client(wire.url) as client:
            with self.assertRaises((OSError, beamline.client.http.client.HTTPException)):  # without a number the client cannot know whether the run was applied
                beamline.RemoteProgram(client, "counted", program.info).run(POINTS)

    def test_onnx(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "relu.onnx")
            path.write_bytes(relu())
            for given in (path, relu()):
                program = self.client.put_onnx("relu", given, dims={"batch": (1, 3)}, device="interp:0")
                self.assertEqual({"batch": [1, 3]}, program.info["entries"]["main"]["dims"])
                self.assertEqual([[0, 1], [2, 0]], program.run({"x": [[-1, 1], [2, -2]]})["y"].tolist())
            for dims, wanted in (((1, 9, 2), [2, 8, 2]), (2, [2, 2])):
                program = self.client.put_onnx("relu", relu(), dims={"batch": dims}, device="interp:0")
                self.assertEqual({"batch": wanted}, program.info["entries"]["main"]["dims"])
        self.assertRaises(beamline.Conflict, self.client.put_onnx, "relu", relu(), if_absent=True)
        with self.assertRaisesRegex(beamline.BeamlineError, "Rolu"):
            self.client.put_onnx("relu", relu(b"Rolu"))

    def test_cost(self):
        """A dry run reports the cost and applies nothing."""
        cost = self.client.cost(double(), {"x": [1, 2, 3]})
        self.assertEqual((True, 12, 12, 24, 1), (cost["dry_run"], cost["input_bytes"], cost["output_bytes"], cost["memory_bytes"], len(cost["launched"])))
        program = self.client.put_program("dear", line())
        for binary in (True, False):
            self.client.binary = binary
            cost = program.cost(POINTS, steps=7)
            self.assertEqual((7, True), (cost["steps"], cost["ops"] > 0))
        self.assertEqual(0, program.state()["adam.step"].item())
        self.assertEqual(({}, True), (dry := program.run(POINTS, dry_run=True), dry.stats["dry_run"]))


class DurableTest(unittest.TestCase):
    def test_it_comes_back(self):
        with tempfile.TemporaryDirectory() as folder:
            options = (*INTERPRETER, "--state", folder)
            server = Server(*options)
            with beamline.Client(server.url) as client:
                client.put("stays", [1, 2], durable=True)
                client.put("goes", [1, 2])
                client.put_program("line", line(), durable=True).run(POINTS, steps=3, seq=1)
                client.put_program("other", line())
                self.assertEqual([True], [each["durable"] for each in client.tensors() if "durable" in each])
            self.assertEqual(0, server.stop())
            server = Server(*options)
            with beamline.Client(server.url) as client:
                client.wait_ready()
                self.assertEqual((["stays"], [1, 2]), ([each["name"] for each in client.tensors()], client.get("stays").tolist()))
                self.assertEqual((["line"], 3), ([each["name"] for each in client.programs()], client.program("line").state()["adam.step"].item()))
                client.program("line").run(POINTS, steps=3, seq=1)
                self.assertEqual(3, client.program("line").state()["adam.step"].item())
            self.assertEqual(0, server.stop())


class ServerTest(ClientCase):
    def test_what_it_says_of_itself(self):
        self.assertEqual(self.client.devices()[0]["id"], "interp:0")
        self.assertTrue(self.client.ready())
        self.assertTrue(any(name.startswith("beamline_") for name in self.client.metrics()))

    def test_examples_of_the_documents(self):
        text = (ROOT / "clients" / "python" / "README.md").read_text()
        code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
        printed = []
        exec(code.replace("http://127.0.0.1:8470", self.server.url), {"print": lambda *words: printed.append(words)})
        self.assertEqual(printed[0], ([5, 12, 21], [5, 6, 7], [1, 2, 3]))
        self.assertAlmostEqual(printed[1][0][0], 2, 3)
        self.assertAlmostEqual(printed[1][1][0], 1, 3)
        self.assertTrue(pathlib.Path(ROOT, "docs", "client.md").exists())


if __name__ == "__main__":
    unittest.main()
