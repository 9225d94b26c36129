# SPDX-License-Identifier: MIT
"""Texts on a Vulkan device without host access to its buffers, like a GPU: pages are copied when their states grow, and move to
the host and back."""

import concurrent.futures
import os
import unittest
import unittest.mock

from test_devices import VULKAN, has_vulkan  # imported first, since it adds the folder of the next module to the path
import test_openai
import test_text_faults
import test_text_pages


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class OnVulkan:
    """A mixin before a test class: replaces opencl:0 by vulkan:0."""

    OPTIONS = ("--backends", "vulkan,interp")

    @classmethod
    def put(cls, repository, name, document, *args, instance_group=None, **config):
        if instance_group is not None:
            config["instance_group"] = [{"device": group["device"].replace("opencl", "vulkan")} for group in instance_group]
        super().put(repository, name, document, *args, **config)

    @classmethod
    def setUpClass(cls):
        cls.enterClassContext(unittest.mock.patch.dict(os.environ, VULKAN))
        super().setUpClass()


class Pages(OnVulkan, test_text_pages.Pages):
    pass


class OpenAI(OnVulkan, test_openai.OpenAI):
    pass


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class Imported(test_text_faults.Lost):
    """A language model whose states initially have few pages."""

    def start(self, *args, **env):
        super().start(*args, **env, **VULKAN)

    def test_t14_a_device_in_the_midst_of_texts(self):
        self.assertGreater(self.losses("vulkan", [f"device:{nth}" for nth in (250, 350, 550)]), 0)

    def test_t14_launches_without_memory(self):
        self.assertEqual(0, self.losses("vulkan", [f"launch:{nth}" for nth in (60, 121)]))

    def test_states_grow(self):
        self.start("--backends", "vulkan")
        long = self.write("abc", 560)  # 18 pages
        self.assertEqual(200, long[0], long[1])
        few = self.pages()
        self.assertGreater(few, 16)
        begins = ("bcd", "cde", "def")
        alone = [self.write(begin, 100)[1] for begin in begins]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for text, (status, beside) in zip(alone, pool.map(lambda begin: self.write(begin, 300), begins)):
                self.assertEqual((200, True), (status, beside.startswith(text)), (text, beside))
        self.assertGreater(self.pages(), few)
        self.end()


if __name__ == "__main__":
    unittest.main()
