# SPDX-License-Identifier: MIT
"""The rules of tools/layers about the text of a source file refuse what they should."""
import importlib.machinery
import importlib.util
import pathlib
import unittest

from served import ROOT

loader = importlib.machinery.SourceFileLoader("layers", str(ROOT / "tools" / "layers"))
layers = importlib.util.module_from_spec(importlib.util.spec_from_loader("layers", loader))
loader.exec_module(layers)


def struct(body):
    return dict(layers.fields(f"typedef struct bl_thing {{\n{body}\n}} bl_thing;\n"))["bl_thing"]


class LayersTest(unittest.TestCase):
    def test_fields(self):
        self.assertEqual(3, struct("int a, *b; /* c; d; */\nchar name[N];"))
        self.assertEqual(3, struct("void (*run)(void *arg, int n);\nint dim[16], (*pair)[2];"))
        self.assertEqual(4, struct("struct { int a, b; } part;\nunion { int c; float d; };"))
        self.assertEqual(2, struct("enum { A, B, C } state;\nstruct bl_other other;"))
        self.assertEqual([("thing", 1)], list(layers.fields("struct thing {\n#ifdef X\n    int a;\n#endif\n};\nstruct thing *make(struct thing *from);\n")))

    def test_structs(self):
        wide = "typedef struct bl_thing {\n" + "    int a, b, c;\n" * 10 + "    %s\n} bl_thing;\n"
        self.assertEqual([], list(layers.check_structs("server/run", wide % "")))
        self.assertEqual([], list(layers.check_structs("engine/ir", wide % "int d;")))
        self.assertIn("bl_thing has 31 fields", list(layers.check_structs("server/run", wide % "int d;"))[0])

    def test_other_rules(self):
        self.assertIn("may include", list(layers.check_includes("vulkan", ROOT / "vulkan" / "none.c", '#include "engine/ir/node.h"\n'))[0])
        self.assertEqual([], list(layers.check_includes("vulkan", ROOT / "vulkan" / "none.c", '#include "engine/device/device.h"\n')))
        licence = "/* SPDX-License-Identifier: MIT */\n"
        self.assertEqual([], list(layers.check_file(pathlib.Path("a.c"), licence + "\n" * 799)))
        self.assertEqual(2, len(list(layers.check_file(pathlib.Path("a.c"), "\n" * 801))))
