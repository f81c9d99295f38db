"""A vision transformer (ViT-S/16, 224 pixels) with random weights as an ONNX file, for speed.py.

    python scripts/photos/make_vit.py vit-s16.onnx

Needs numpy and onnx.
"""

import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, LAYERS, PATCH = 384, 6, 12, 16
TOKENS = (224 // PATCH) ** 2 + 1


class Graph:
    """Nodes and weights, one after the other."""

    def __init__(self):
        self.rng, self.nodes, self.weights = np.random.default_rng(0), [], []

    def keep(self, name, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(self, name, *shape):
        return self.keep(name, (0.02 * self.rng.normal(size=shape)).astype("f4"))

    def same(self, name, value):
        return self.keep(name, np.full(WIDTH, value, dtype="f4"))

    def op(self, kind, inputs, out, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [out], **attributes))
        return out

    def norm(self, x, name):
        gain, shift = self.same(name + "_gain", 1.0), self.same(name + "_shift", 0.0)
        return self.op("LayerNormalization", [x, gain, shift], name, axis=-1, epsilon=1e-6)

    def linear(self, x, name, rows, columns):
        product = self.op("MatMul", [x, self.random(name + "_w", rows, columns)], name + "_product")
        return self.op("Add", [product, self.random(name + "_b", columns)], name)


def attention(g, x, name):
    def heads(part, order):
        split = g.op("Reshape", [g.linear(x, name + part, WIDTH, WIDTH), "split"], name + part + "_split")
        return g.op("Transpose", [split], name + part + "_turned", perm=order)

    q, k, v = heads("q", [0, 2, 1, 3]), heads("k", [0, 2, 3, 1]), heads("v", [0, 2, 1, 3])
    scores = g.op("Mul", [g.op("MatMul", [q, k], name + "qk"), "scale"], name + "scores")
    mixed = g.op("MatMul", [g.op("Softmax", [scores], name + "soft", axis=-1), v], name + "mixed")
    turned = g.op("Transpose", [mixed], name + "turned", perm=[0, 2, 1, 3])
    return g.linear(g.op("Reshape", [turned, "joined"], name + "joined"), name + "out", WIDTH, WIDTH)


def perceptron(g, x, name):
    hidden = g.linear(x, name + "hidden", WIDTH, 4 * WIDTH)
    erf = g.op("Erf", [g.op("Mul", [hidden, "root_half"], name + "scaled")], name + "erf")
    gate = g.op("Mul", [g.op("Add", [erf, "one"], name + "plus"), "half"], name + "gate")
    return g.linear(g.op("Mul", [hidden, gate], name + "gelu"), name + "down", 4 * WIDTH, WIDTH)


def main():
    g = Graph()
    for name, value in (("scale", (HEADS / WIDTH) ** 0.5), ("root_half", 0.5**0.5), ("one", 1.0), ("half", 0.5)):
        g.keep(name, np.float32(value))
    g.keep("flat", np.array([1, WIDTH, TOKENS - 1]))
    g.keep("split", np.array([1, TOKENS, HEADS, WIDTH // HEADS]))
    g.keep("joined", np.array([1, TOKENS, WIDTH]))
    kernel = g.random("patch_w", WIDTH, 3, PATCH, PATCH)
    shape = {"strides": [PATCH, PATCH], "kernel_shape": [PATCH, PATCH], "pads": [0] * 4, "dilations": [1, 1], "group": 1}
    patches = g.op("Conv", ["x", kernel, g.random("patch_b", WIDTH)], "patches", **shape)
    tokens = g.op("Transpose", [g.op("Reshape", [patches, "flat"], "row")], "tokens", perm=[0, 2, 1])
    x = g.op("Concat", [g.random("class", 1, 1, WIDTH), tokens], "all", axis=1)
    x = g.op("Add", [x, g.random("places", 1, TOKENS, WIDTH)], "start")
    for layer in range(LAYERS):
        name = f"layer{layer}_"
        x = g.op("Add", [x, attention(g, g.norm(x, name + "norm1"), name + "a_")], name + "attended")
        x = g.op("Add", [x, perceptron(g, g.norm(x, name + "norm2"), name + "m_")], name + "done")
    out = g.norm(x, "last_hidden_state")
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])]
    outputs = [helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, TOKENS, WIDTH])]
    graph = helper.make_graph(g.nodes, "vit", ports, outputs, g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with open(sys.argv[1], "wb") as file:
        file.write(model.SerializeToString())


if __name__ == "__main__":
    main()
