# SPDX-License-Identifier: MIT
"""Text generation with the JavaScript client."""
import json
import sys
import unittest

from node import NodeCase
from served import ROOT


class TextsTest(NodeCase):
    def test_texts(self):
        sys.path.append(str(ROOT / "tests" / "models"))
        import test_text
        files = {"1/model.json": test_text.alphabet(), "1/tokenizer.json": test_text.TOKENIZER}
        self.run_script("texts.mjs", text=json.dumps({"files": files}))


if __name__ == "__main__":
    unittest.main()
