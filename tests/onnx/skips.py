# SPDX-License-Identifier: MIT
"""The official cases that are not run, by name, with reasons.

The server refuses each of them, or the case has another reason that the test can check.  A listed case that passes is a
failure.
"""

# pattern of the whole name -> reason
REASONS = (
    # shapes that depend on data
    (r"test_loop11", "slices by the counter of the loop, so that each step has another shape"),
    # types that are no tensors
    (r"test_(string|regex)_?\w+|test_strnorm\w*|test_strnormalizer\w*", "computed strings"),
    (r"test_image_decoder_\w+", "encoded pictures, which only a hosted model takes; `test_pictures.py` tests them"),
    (r"test_(sequence_\w+|split_to_sequence_\w+|identity_sequence|identity_opt|loop13_seq|loop16_seq_none|optional_get_element\w*sequence|if_seq|if_opt"
     r"|optional_has_element_\w*empty_optional_input)", "sequences and optionals as inputs or outputs"),
    # random numbers
    (r"test_bernoulli\w*|test_training_dropout_(default|default_mask|mask)|test_training_dropout", "other random numbers"),
    # rounding
    (r"test_dft_inverse(_opset19)?", "noise of 2e-7 where 0 is exact, and the case allows 1e-7"),
)
