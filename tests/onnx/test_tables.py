# SPDX-License-Identifier: MIT
"""Operators of ai.onnx.ml in hosted models.

Trees are compared with a walk in Python.  Other operators are compared with onnxruntime's answers in tables.json, which
``tests/onnx/test_tables.py --record`` writes if onnxruntime is installed.
"""
import json
import math
import pathlib
import sys
import unittest

import hosting
import numpy as np
from onnx import TensorProto, helper, numpy_helper

import served

ML = "ai.onnx.ml"
RECORDED = pathlib.Path(__file__).with_name("tables.json")
TYPES = {"f4": TensorProto.FLOAT, "f8": TensorProto.DOUBLE, "i8": TensorProto.INT64, "i4": TensorProto.INT32, "O": TensorProto.STRING}
rng = np.random.default_rng(11)
X = np.round(rng.normal(size=(9, 4)), 3).astype("f4")
X[2, 1] = X[7, 3] = np.nan
WORDS = np.array([["rome"], ["oslo"], ["paris"], ["rome"], ["bonn"], [""]], object)


def model(nodes, inputs, outputs, ml=3, initialisers=()):
    """``inputs``: name -> array, whose first dimension varies; ``outputs``: name -> element type."""
    graph = helper.make_graph(
        nodes, "tables", [helper.make_tensor_value_info(name, TYPES[array.dtype.str[1:]], [None, *array.shape[1:]]) for name, array in inputs.items()],
        [helper.make_tensor_value_info(name, TYPES[kind], None) if kind else helper.make_empty_tensor_value_info(name) for name, kind in outputs.items()],
        list(initialisers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, ml)], ir_version=9)


def one(op, array, outputs=("y",), kinds=("f4",), ml=3, **attributes):
    """A case of one node: a model and its inputs."""
    node = helper.make_node(op, ["x"], list(outputs), domain=ML, **attributes)
    return model([node], {"x": array}, dict(zip(outputs, kinds, strict=True)), ml), {"x": array}


# ---- cases with recorded answers of onnxruntime

def stump(weights, labels, transform="NONE", base=()):
    """A classifier with one test, x <= 0; ``weights``: class -> weight for each leaf."""
    listed = [(leaf + 1, each, weight) for leaf, row in enumerate(weights) for each, weight in row.items()]
    names = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
    return one("TreeEnsembleClassifier", np.array([[-1], [1], [0], [np.nan]], "f4"), ("label", "scores"), ("O" if isinstance(labels[0], str) else "i8", "f4"),
               post_transform=transform, nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3, nodes_values=[0.0] * 3,
               nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0] * len(listed),
               class_nodeids=[leaf for leaf, _, _ in listed], class_ids=[each for _, each, _ in listed], class_weights=[weight for _, _, weight in listed],
               **{names: list(labels)}, **({"base_values": list(base)} if base else {}))


def support(kernel, classes=3, probability=True, **more):
    """A classifier with 2 support vectors for each class."""
    r = np.random.default_rng(3)
    pairs = classes * (classes - 1) // 2
    attributes = {"coefficients": r.normal(size=2 * classes * (classes - 1)).round(3).tolist(), "support_vectors": r.normal(size=8 * classes).round(3).tolist(),
                  "rho": r.normal(size=pairs).round(3).tolist(), "vectors_per_class": [2] * classes, "classlabels_ints": list(range(10, 10 + classes))}
    if probability:
        attributes.update(prob_a=(-1 - r.random(pairs)).round(3).tolist(), prob_b=r.normal(size=pairs).round(3).tolist())
    return one("SVMClassifier", np.nan_to_num(X), ("label", "scores"), ("i8", "f4"), kernel_type=kernel, kernel_params=[0.4, 0.3, 3.0], **attributes, **more)


def regressor(kernel, **more):
    r = np.random.default_rng(4)
    return one("SVMRegressor", np.nan_to_num(X), coefficients=r.normal(size=5).round(3).tolist(), support_vectors=r.normal(size=20).round(3).tolist(), n_supports=5,
               rho=[0.2], kernel_type=kernel, kernel_params=[0.4, 0.3, 3.0], **more)


def linear(rows, labels, transform):
    names = {"classlabels_strings" if isinstance(labels[0], str) else "classlabels_ints": labels} if labels else {}
    return one("LinearClassifier", np.nan_to_num(X), ("label", "scores"), ("O" if labels and isinstance(labels[0], str) else "i8", "f4"),
               coefficients=np.random.default_rng(5).normal(size=4 * rows).round(3).tolist(), intercepts=[0.1 * (i + 1) for i in range(rows)],
               post_transform=transform, **names)


def encoder(array, kind, **attributes):
    return one("LabelEncoder", array, kinds=(kind,), ml=attributes.pop("ml", 2), **attributes)


def cases():
    """Returns name -> (model, inputs)."""
    made = {}
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        made[f"stump positive {transform}"] = stump([{0: 0.3}, {0: 0.7}], [10, 20], transform)
        made[f"stump mixed {transform}"] = stump([{0: -0.3}, {0: 0.7}], [10, 20], transform)
        made[f"stump three {transform}"] = stump([{0: -0.3, 1: 0.2}, {2: 0.7}], ["a", "b", "c"], transform)
        made[f"stump last {transform}"] = stump([{1: 0.3}, {1: 0.7}], ["no", "yes"], transform)
        made[f"linear two {transform}"] = linear(1, ["no", "yes"], transform)
        made[f"linear three {transform}"] = linear(3, [7, 8, 9], transform)
    made["stump three PROBIT"] = stump([{0: 0.3, 1: 0.2, 2: 0.9}, {2: 0.7, 0: 0.1, 1: 0.4}], [1, 2, 3], "PROBIT")
    made["stump one label"] = stump([{0: -0.3}, {0: 0.7}], [1])
    made["stump base"] = stump([{0: -0.3}, {0: 0.7}], [10, 20], "LOGISTIC", [0.25])
    made["stump bases"] = stump([{0: -0.3}, {1: 0.7}], [10, 20, 30], "SOFTMAX", [0.25, 0.5, 0.6])
    made["linear no labels"] = linear(1, None, "NONE")
    for targets in (1, 2):
        made[f"linear regressor {targets}"] = one("LinearRegressor", np.nan_to_num(X), coefficients=[0.5, -1.0, 2.0, 0.25] * targets, intercepts=[0.5] * targets, targets=targets)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        made[f"svm {kernel}"] = support(kernel)
        made[f"svm regressor {kernel}"] = regressor(kernel)
    made["svm votes"] = support("RBF", probability=False)
    made["svm two"] = support("RBF", classes=2)
    made["svm six"] = support("RBF", classes=6)
    made["svm one class"] = regressor("RBF", one_class=1)
    for norm in ("MAX", "L1", "L2"):
        made[f"normalizer {norm}"] = one("Normalizer", np.array([[-3, 2, 1], [0, 0, 0], [1, 2, 4]], "f4"), norm=norm)
    made["scaler"] = one("Scaler", np.nan_to_num(X), offset=[1.0, 0.5, 0.25, 2.0], scale=[2.0, 1.0, -1.0, 0.5])
    made["scaler int"] = one("Scaler", np.arange(8).reshape(2, 4), offset=[1.0], scale=[0.5])
    made["imputer"] = one("Imputer", X, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=math.nan)
    made["imputer value"] = one("Imputer", np.array([[0, 1], [2, 0]], "f4"), imputed_value_floats=[7.0], replaced_value_float=0.0)
    made["imputer int"] = one("Imputer", np.array([[0, 1], [2, -1]]), kinds=("i8",), imputed_value_int64s=[7, 8], replaced_value_int64=-1)
    made["one hot int"] = one("OneHotEncoder", np.array([[1], [5], [3]]), cats_int64s=[3, 1, 9], zeros=1)
    made["one hot float"] = one("OneHotEncoder", np.array([[1.0], [5.0], [3.0]], "f4"), cats_int64s=[3, 1, 9], zeros=1)
    made["one hot string"] = one("OneHotEncoder", WORDS, cats_strings=["bonn", "rome", "kyiv"], zeros=1)
    made["encoder strings"] = encoder(WORDS, "i8", keys_strings=["rome", "bonn", "rome"], values_int64s=[4, 5, 6], default_int64=-3)
    made["encoder texts"] = encoder(WORDS, "O", keys_strings=["rome", "bonn"], values_strings=["Rom", "Bonn"])
    made["encoder ints"] = encoder(np.array([[-(2**62)], [3], [2**62 + 1], [4]]), "O", keys_int64s=[2**62 + 1, 3, -(2**62)], values_strings=["c", "b", "a"], default_string="?")
    made["encoder floats"] = encoder(np.array([[1.5], [np.nan], [2.0]], "f4"), "f4", ml=4, keys_floats=[2.0, math.nan, 1.5], values_floats=[1.0, 2.0, 3.0])
    made["encoder many"] = encoder(np.arange(-2, 21).reshape(-1, 1), "i8", keys_int64s=list(range(0, 40, 2)), values_int64s=list(range(20)))
    made["encoder first"] = encoder(WORDS, "i8", ml=1, classes_strings=["rome", "bonn"], default_int64=9)
    made["mapper"] = one("CategoryMapper", WORDS, kinds=("i8",), cats_strings=["oslo", "rome"], cats_int64s=[70, 80])
    made["mapper back"] = one("CategoryMapper", np.array([[70], [1]]), kinds=("O",), cats_strings=["oslo", "rome"], cats_int64s=[70, 80], default_string="none")
    made["binarizer"] = one("Binarizer", np.nan_to_num(X), threshold=0.25)
    pair = {"x": np.nan_to_num(X), "k": np.arange(9).reshape(9, 1)}
    joined = helper.make_node("FeatureVectorizer", ["x"], ["y"], domain=ML, inputdimensions=[3])
    made["vectorizer"] = model([joined], {"x": pair["x"]}, {"y": "f4"}), {"x": pair["x"]}
    return made


# ---- trees

MODES = {"BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater, "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal}


def grow(depth, features, modes, targets=1, chance=0.8):
    """Returns a random tree: nested (feature, value, mode, missing is yes, yes, no), and dicts of weights."""
    if depth == 0 or rng.random() > chance:
        return {int(t): float(np.round(rng.normal(), 2)) for t in rng.choice(targets, max(1, targets - 1), replace=False)}
    below = [grow(depth - 1, features, modes, targets, chance) for _ in range(2)]
    return int(rng.integers(features)), float(rng.integers(-2, 3)), modes[rng.integers(len(modes))], bool(rng.integers(2)), *below


def walk(tree, row):
    while not isinstance(tree, dict):
        feature, value, mode, missing, yes, no = tree
        x = row[feature]
        holds = x in value if mode == "BRANCH_MEMBER" else MODES[mode](x, value)
        tree = yes if holds or (missing and x != x) else no
    return tree


def fold(trees, rows, targets, how):
    out = np.zeros((len(rows), targets))
    for at, row in enumerate(rows):
        leaves = [walk(tree, row) for tree in trees]
        for t in range(targets):
            found = [leaf[t] for leaf in leaves if t in leaf]
            out[at, t] = {"MIN": min, "MAX": max}.get(how, sum)(found) if found else 0
    return out / len(trees) if how == "AVERAGE" else out


def flatten(trees):
    """Returns the attributes of TreeEnsembleRegressor."""
    a = {name: [] for name in ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids",
                               "nodes_missing_value_tracks_true", "target_treeids", "target_nodeids", "target_ids", "target_weights")}
    for number, tree in enumerate(trees):
        waiting, at = [tree], 0
        while at < len(waiting):
            node, leaf = waiting[at], isinstance(waiting[at], dict)
            feature, value, mode, missing = (0, 0.0, "LEAF", False) if leaf else node[:4]
            row = (number, at, feature, value, mode, 0 if leaf else len(waiting), 0 if leaf else len(waiting) + 1, int(missing))
            for name, one_value in zip(list(a)[:8], row, strict=True):
                a[name].append(one_value)
            for target, weight in node.items() if leaf else ():
                for name, one_value in zip(list(a)[8:], (number, at, target, weight), strict=True):
                    a[name].append(one_value)
            waiting += [] if leaf else node[4:]
            at += 1
    return a


def ensemble(trees, dtype="f4"):
    """Returns the attributes of TreeEnsemble, opset 5."""
    modes = [*MODES, "BRANCH_MEMBER"]
    nodes, leaves, roots, members = [], [], [], []

    def add(tree):
        if isinstance(tree, dict):
            leaves.append(next(iter(tree.items())))
            return len(leaves) - 1, 1
        at = len(nodes)
        nodes.append(None)
        below = [add(each) for each in tree[4:]]
        nodes[at] = (tree, *below)
        return at, 0

    for tree in trees:
        roots.append(add(tree)[0])
    for tree, *_ in nodes:
        if tree[2] == "BRANCH_MEMBER":
            members += [*tree[1], math.nan]
    typed = lambda values: numpy_helper.from_array(np.array(values, dtype))
    return {"tree_roots": roots, "nodes_featureids": [tree[0] for tree, *_ in nodes], "nodes_modes": numpy_helper.from_array(np.array([modes.index(tree[2]) for tree, *_ in nodes], "u1")),
            "nodes_splits": typed([0 if tree[2] == "BRANCH_MEMBER" else tree[1] for tree, *_ in nodes]), "nodes_missing_value_tracks_true": [int(tree[3]) for tree, *_ in nodes],
            "nodes_truenodeids": [yes for _, (yes, _), _ in nodes], "nodes_trueleafs": [leaf for _, (_, leaf), _ in nodes],
            "nodes_falsenodeids": [no for _, _, (no, _) in nodes], "nodes_falseleafs": [leaf for _, _, (_, leaf) in nodes],
            "leaf_targetids": [target for target, _ in leaves], "leaf_weights": typed([weight for _, weight in leaves]),
            **({"membership_values": typed(members)} if members else {})}


def whole_rows(count, features=4):
    """Returns small integers, which include each threshold, and some NaN."""
    rows = rng.integers(-3, 4, (count, features)).astype("f4")
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


class Tables(served.ServedCase):
    options = ("--device", "interp:0", "--log-level", "error")

    def setUp(self):
        self.host = hosting.Host(self.server.port, self.id().rsplit(".", 1)[1])
        self.addCleanup(self.host.close)

    def ask(self, proto, inputs):
        return self.host.ask(proto, list(inputs.values()))

    def refused(self, proto, inputs, *words):
        with self.assertRaises(hosting.Refused) as caught:
            self.ask(proto, inputs)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def close(self, got, wanted, tolerance=1e-5):
        np.testing.assert_allclose(got.astype(float), np.asarray(wanted, float), rtol=tolerance, atol=tolerance)

    def test_what_onnxruntime_gives(self):
        recorded = json.loads(RECORDED.read_text())
        self.assertEqual(set(recorded), set(cases()))
        for name, (proto, inputs) in cases().items():
            with self.subTest(name):
                for got, wanted in zip(self.ask(proto, inputs), recorded[name], strict=True):
                    self.assertEqual(list(got.shape), wanted["shape"])
                    if got.dtype == object or got.dtype.kind == "i":
                        self.assertEqual(got.ravel().tolist(), wanted["data"])
                    else:
                        self.close(got.ravel(), [float(value) for value in wanted["data"]], 1e-4)

    def test_each_comparison_and_aggregate(self):
        rows = whole_rows(40)
        for mode in [*MODES, "all"]:
            for how, targets in (("SUM", 1), ("AVERAGE", 3), ("MIN", 1), ("MAX", 3)):
                with self.subTest(mode, how=how):
                    trees = [grow(5, 4, list(MODES) if mode == "all" else [mode], targets) for _ in range(7)]
                    base = [0.5 + t for t in range(targets)]
                    got, = self.ask(*one("TreeEnsembleRegressor", rows, **flatten(trees), n_targets=targets, aggregate_function=how, base_values=base))
                    self.close(got, fold(trees, rows, targets, how) + base)

    def test_a_target_for_each_tree(self):
        rows = whole_rows(30)
        trees = [grow(4, 4, ["BRANCH_LEQ"]) for _ in range(6)]
        each = [trees[i] for i in range(6)]
        attributes = flatten(each)
        attributes["target_ids"] = [tree % 3 for tree in attributes["target_treeids"]]
        got, = self.ask(*one("TreeEnsembleRegressor", rows, **attributes, n_targets=3))
        self.close(got, np.stack([fold(trees[t::3], rows, 1, "SUM")[:, 0] for t in range(3)], 1))

    def test_dtypes(self):
        trees = [grow(5, 4, ["BRANCH_LT", "BRANCH_GTE"]) for _ in range(5)]
        exact = np.array([[2, 1, 0, -1], [np.nextafter(2, 0), np.nextafter(1, 2), 0, -1]])
        for array in (exact, exact.astype("f4"), exact.astype("i8")):
            with self.subTest(array.dtype):
                got, = self.ask(*one("TreeEnsembleRegressor", array, **flatten(trees)))
                self.close(got, fold(trees, array.astype("f4") if array.dtype.kind == "i" else array, 1, "SUM"))

    def test_sets(self):
        def tree(depth):
            if depth == 0:
                return {int(rng.integers(2)): float(np.round(rng.normal(), 2))}
            members = {float(each) for each in rng.integers(-3, 4, rng.integers(0, 6))}
            return int(rng.integers(4)), members, "BRANCH_MEMBER", bool(rng.integers(2)), tree(depth - 1), tree(depth - 1)
        rows = whole_rows(50)
        trees = [tree(3) for _ in range(4)] + [grow(3, 4, list(MODES), chance=1)]
        for dtype in ("f4", "f8"):
            for number, how in enumerate(("AVERAGE", "SUM", "MIN", "MAX")):
                got, = self.ask(*one("TreeEnsemble", rows.astype(dtype), kinds=(dtype,), ml=5, **ensemble(trees, dtype), n_targets=2, aggregate_function=number))
                self.assertEqual(got.dtype, np.dtype(dtype))
                self.close(got, fold(trees, rows, 2, how))

    def test_deep_trees(self):
        for depth in (60, 400):
            tree = {0: -1.0}
            for level in range(depth, 0, -1):
                tree = (0, float(level), "BRANCH_LT", False, {0: float(level)}, tree)
            rows = np.array([[0.5], [30.5], [depth - 0.5], [depth + 1]], "f4")
            got, = self.ask(*one("TreeEnsembleRegressor", rows, **flatten([tree, {0: 0.25}])))
            self.close(got, fold([tree, {0: 0.25}], rows, 1, "SUM"))

    def test_a_node_with_two_parents(self):
        """LightGBM's export of sets: consecutive equality tests whose true branches share a node."""
        attributes = {"nodes_treeids": [0] * 5, "nodes_nodeids": [0, 1, 2, 3, 4], "nodes_featureids": [0] * 5, "nodes_values": [1.0, 2.0, 7.0, 0.0, 0.0],
                      "nodes_modes": ["BRANCH_EQ", "BRANCH_EQ", "BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [2, 2, 3, 0, 0],
                      "nodes_falsenodeids": [1, 4, 4, 0, 0], "target_treeids": [0, 0], "target_nodeids": [3, 4], "target_ids": [0, 0], "target_weights": [1.0, -1.0]}
        got, = self.ask(*one("TreeEnsembleRegressor", np.array([[1], [2], [3]], "f4"), **attributes))
        self.close(got, [[1], [1], [-1]])

    def test_what_is_no_tree(self):
        good = flatten([(0, 0.0, "BRANCH_LEQ", False, {0: 1.0}, {0: 2.0})])
        rows = np.zeros((1, 1), "f4")
        for change, words in (({"nodes_truenodeids": [0, 0, 0]}, ("trees",)), ({"nodes_truenodeids": [9, 0, 0]}, ("child",)), ({"nodes_featureids": [1, 0, 0]}, ("feature 1", "1")),
                              ({"nodes_modes": ["BRANCH_X", "LEAF", "LEAF"]}, ("BRANCH_X",)), ({"target_ids": [0, 5]}, ("5",)), ({"nodes_values": [1.0]}, ("nodes_values", "3")),
                              ({"nodes_nodeids": [0, 1, 1]}, ("twice",)), ({"n_targets": 2**40}, ("targets",)), ({"aggregate_function": "MEDIAN"}, ("MEDIAN",)), ({"post_transform": "CUBE", "n_targets": 2}, ("CUBE",))):
            with self.subTest(change):
                self.refused(*one("TreeEnsembleRegressor", rows, **{**good, **change}), *words)
        ring = ensemble([(0, 0.0, "BRANCH_LEQ", False, (0, 1.0, "BRANCH_LEQ", False, {0: 1.0}, {0: 1.0}), {0: 2.0})])
        ring.update(nodes_truenodeids=[1, 0], nodes_trueleafs=[0, 0])
        self.refused(*one("TreeEnsemble", rows, ml=5, **ring), "have a cycle")

    def test_strings(self):
        """Operators that move elements also move strings, including strings that no table has, and equal strings compare
        equal."""
        other = WORDS[::-1].copy()
        nodes = [helper.make_node("Concat", ["a", "b"], ["ab"], axis=1), helper.make_node("Equal", ["a", "b"], ["same"]),
                 helper.make_node("LabelEncoder", ["ab"], ["codes"], domain=ML, keys_strings=["rome", "kyiv"], values_int64s=[1, 2], default_int64=-1)]
        proto = model(nodes, {"a": WORDS, "b": other}, {"ab": "O", "same": None, "codes": "i8"})
        proto.graph.output[1].type.tensor_type.elem_type = TensorProto.BOOL
        joined, same, codes = self.ask(proto, {"a": WORDS, "b": other})
        self.assertEqual(joined.tolist(), np.concatenate([WORDS, other], 1).tolist())
        self.assertEqual(same.tolist(), (WORDS == other).tolist())
        self.assertEqual(codes.tolist(), np.where(joined == "rome", 1, -1).tolist())

    def test_columns_of_strings_and_numbers(self):
        numbers = np.array([[1.5], [np.nan], [2.5], [0], [1], [2]], "f4")
        nodes = [helper.make_node("OneHotEncoder", ["city"], ["hot"], domain=ML, cats_strings=["bonn", "oslo", "rome"], zeros=1),
                 helper.make_node("Reshape", ["hot", "flat"], ["wide"]),
                 helper.make_node("Imputer", ["size"], ["full"], domain=ML, imputed_value_floats=[9.0], replaced_value_float=math.nan),
                 helper.make_node("Scaler", ["full"], ["scaled"], domain=ML, offset=[1.0], scale=[2.0]), helper.make_node("Concat", ["wide", "scaled"], ["y"], axis=1)]
        proto = model(nodes, {"city": WORDS, "size": numbers}, {"y": "f4"}, initialisers=[numpy_helper.from_array(np.array([-1, 3]), "flat")])
        got, = self.ask(proto, {"city": WORDS, "size": numbers})
        wanted = np.concatenate([(WORDS == np.array(["bonn", "oslo", "rome"], object)).astype("f4"), (np.where(np.isnan(numbers), 9, numbers) - 1) * 2], 1)
        self.close(got, wanted)

    def test_maps_are_tensors(self):
        proto, inputs = stump([{0: 0.1, 1: 0.2}, {2: 0.7}], ["a", "b", "c"])
        proto.graph.node.append(helper.make_node("ZipMap", ["scores"], ["maps"], domain=ML, classlabels_strings=["a", "b", "c"]))
        proto.graph.output[1].CopyFrom(helper.make_empty_tensor_value_info("maps"))
        load = {"parameters": {"config": "{}", "file:1/model.onnx": hosting.base64.b64encode(proto.SerializeToString()).decode()}}
        self.host.call("POST", f"/v2/repository/models/{self.host.name}/load", json.dumps(load), "application/json")
        shown = self.host.call("GET", f"/v2/models/{self.host.name}", None, "application/json")["outputs"]
        self.assertEqual(shown, [{"name": "label", "datatype": "BYTES", "shape": [-1]},
                                 {"name": "maps", "datatype": "FP32", "shape": [-1, 3], "labels": ["a", "b", "c"]}])
        wanted = {"inputs": [hosting.as_infer_input("x", inputs["x"][:1])], "outputs": [{"name": "maps", "parameters": {"classification": 2}}]}
        reply = self.host.call("POST", f"/v2/models/{self.host.name}/infer", json.dumps(wanted), "application/json")
        self.assertEqual(reply["outputs"][0]["data"], ["0.200000:1:b", "0.100000:0:a"])

    def test_maps_as_inputs(self):
        map_type = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        vectorizer = helper.make_node("DictVectorizer", ["x"], ["y"], domain=ML, string_vocabulary=["b", "a"])
        proto = model([vectorizer], {"x": X}, {"y": "f4"})
        proto.graph.input[0].type.CopyFrom(map_type)
        got, = self.ask(proto, {"x": X[:3, :2]})
        self.assertEqual(got.shape, (3, 2))
        whole = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        proto = model([helper.make_node("CastMap", ["x"], ["y"], domain=ML, cast_to="TO_INT64", map_form="SPARSE", max_map=4)], {"x": X}, {"y": "i8"})
        proto.graph.input[0].type.CopyFrom(whole)
        got, = self.ask(proto, {"x": np.array([[1, 0, 2, 3]], "f4")})
        self.assertEqual(got.tolist(), [[1, 0, 2, 3]])

    def test_many_keys(self):
        keys = rng.permutation(100000)
        asked = np.array([[int(keys[7])], [100000], [int(keys[99999])]])
        got, = self.ask(*one("LabelEncoder", asked, kinds=("i8",), ml=2, keys_int64s=keys.tolist(), values_int64s=list(range(100000))))
        self.assertEqual(got.tolist(), [[7], [-1], [99999]])

    def test_features_side_by_side(self):
        pair = {"x": np.nan_to_num(X), "k": np.arange(18).reshape(9, 2)}
        node = helper.make_node("FeatureVectorizer", ["x", "k"], ["y"], domain=ML, inputdimensions=[3, 3])
        got, = self.ask(model([node], pair, {"y": "f4"}), pair)
        self.close(got, np.concatenate([pair["x"][:, :3], pair["k"], np.zeros((9, 1))], 1))

    def test_a_program_has_no_strings(self):
        for name in ("encoder texts", "encoder strings"):
            with self.assertRaises(hosting.Refused) as caught:
                self.host.put(cases()[name][0])
            self.assertIn("strings", str(caught.exception))
            self.assertIn("/v2/repository/models", str(caught.exception))
        node = helper.make_node("Add", ["x", "x"], ["y"])
        self.refused(model([node], {"x": WORDS}, {"y": "O"}), {"x": WORDS}, "strings", "Add")


class OnTheDefaultDevice(Tables):
    options = ("--log-level", "error")

    def test_what_onnxruntime_gives(self):
        recorded = json.loads(RECORDED.read_text())
        for name in ("stump three SOFTMAX", "svm six", "encoder strings"):
            proto, inputs = cases()[name]
            got, wanted = self.ask(proto, inputs), recorded[name]
            self.assertEqual(got[0].ravel().tolist(), wanted[0]["data"])
            for each, numbers in zip(got[1:], wanted[1:], strict=True):
                self.close(each.ravel(), numbers["data"], 1e-4)

    test_each_comparison_and_aggregate = test_what_is_no_tree = test_a_program_has_no_strings = test_dtypes = None
    test_columns_of_strings_and_numbers = test_maps_are_tensors = test_maps_as_inputs = test_features_side_by_side = test_many_keys = None


def record():
    import onnxruntime
    out = {}
    for name, (proto, inputs) in cases().items():
        got = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs)
        out[name] = [{"shape": list(each.shape), "data": [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in each.ravel().tolist()]} for each in got]
    RECORDED.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in out.items()) + "\n}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        unittest.main()
