"""bertie.attention on arrays, forward and back."""

import numpy as np
import pytest

import bertie
from bertie.arrays import Compute, Look, Score


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def formula(q, k, v, seen=None):
    scores = q.astype("float64") @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    return softmax(scores) @ v


@pytest.mark.parametrize("lead", [(), (3,), (2, 4)])
def test_is_the_formula(lead):
    q, k, v = numbers(*lead, 7, 8), numbers(*lead, 9, 8, seed=1), numbers(*lead, 9, 5, seed=2)
    out, weights = bertie.attention(q, k, v, weights=True)
    np.testing.assert_allclose(out, formula(q, k, v), atol=1e-5)
    assert weights.shape == (*lead, 7, 9)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(bertie.attention(q, k, v), out, atol=1e-6)


def test_heads_lie_beside_each_other():
    q, k, v = (numbers(2, 6, 3 * 4, seed=s) for s in range(3))
    out = bertie.attention(q, k, v, heads=3)
    for h in range(3):
        part = np.s_[..., h * 4 : h * 4 + 4]
        np.testing.assert_allclose(out[part], formula(q[part], k[part], v[part]), atol=1e-5)


def test_looks():
    q, k, v = (numbers(6, 4, seed=s) for s in range(3))
    i, j = np.mgrid[:6, :6]
    np.testing.assert_allclose(bertie.attention(q, k, v, causal=True), formula(q, k, v, j <= i), atol=1e-5)
    np.testing.assert_allclose(bertie.attention(q, k, v, look="causal"), formula(q, k, v, j <= i), atol=1e-5)
    window = bertie.attention(q, k, v, look=Look.window(1))
    np.testing.assert_allclose(window, formula(q, k, v, abs(i - j) <= 1), atol=1e-5)
    mask = (i + j) % 2 == 0
    np.testing.assert_allclose(bertie.attention(q, k, v, look=Look.mask(mask)), formula(q, k, v, mask), atol=1e-5)


def test_computes_approximate():
    q, k, v = (numbers(40, 16, seed=s) / 4 for s in range(3))
    exact = bertie.attention(q, k, v)
    close = bertie.attention(q, k, v, compute=Compute.performer(features=4096))
    np.testing.assert_allclose(close, exact, atol=0.05)
    for compute in ("linear", "performer", "nystrom"):
        assert np.isfinite(bertie.attention(q, k, v, compute=compute)).all()


def test_packed_sequences():
    q, k, v = (numbers(9, 4, seed=s) for s in range(3))
    out = bertie.attention(q, k, v, q_offsets=[0, 4, 9])
    np.testing.assert_allclose(out[:4], formula(q[:4], k[:4], v[:4]), atol=1e-5)
    np.testing.assert_allclose(out[4:], formula(q[4:], k[4:], v[4:]), atol=1e-5)


def test_backward_is_torchs():
    torch = pytest.importorskip("torch")
    q, k, v = (torch.from_numpy(numbers(2, 3, 6, 8, seed=s)).requires_grad_() for s in range(3))
    d_out = torch.from_numpy(numbers(2, 3, 6, 8, seed=4))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    expected.backward(d_out)
    out, saved = bertie.attention_forward(q, k, v, causal=True)
    assert isinstance(out, torch.Tensor)
    torch.testing.assert_close(out, expected.detach(), atol=1e-5, rtol=1e-4)
    gradients = bertie.attention_backward(saved, d_out)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        torch.testing.assert_close(gradients[name], tensor.grad, atol=1e-5, rtol=1e-4)


def test_backward_of_what_a_mechanism_learns():
    q, k, v = (numbers(5, 4, seed=s) for s in range(3))
    w = numbers(4, 4, seed=5)
    d_out = numbers(5, 4, seed=6)

    def loss(w):
        return float((bertie.attention(q, k, v, score=Score.general(w)) * d_out).sum())

    _, saved = bertie.attention_forward(q, k, v, score=Score.general(w))
    gradient = bertie.attention_backward(saved, d_out)["w"]
    step = np.zeros_like(w)
    step[1, 2] = 1e-2
    assert gradient[1, 2] == pytest.approx((loss(w + step) - loss(w - step)) / 2e-2, rel=1e-2, abs=1e-3)
    spans = np.array([2.0], "float32")
    _, saved = bertie.attention_forward(q, k, v, look=Look.adaptive_span(spans, 2.0))
    assert bertie.attention_backward(saved, d_out)["spans"].shape == (1,)


def test_arrays_are_not_copied():
    """A float32 array without gaps is read where it is: writing to it between the passes changes the second."""
    q, k, v = (numbers(5, 4, seed=s) for s in range(3))
    _, saved = bertie.attention_forward(q, k, v)
    assert saved.q.base is q or saved.q is q


def test_what_does_not_fit_is_an_error():
    q, k, v = numbers(5, 4), numbers(5, 3), numbers(5, 4)
    with pytest.raises(bertie.Error):
        bertie.attention(q, k, v)
    with pytest.raises(ValueError, match="no Look"):
        bertie.attention(q, q, v, look="sideways")
    with pytest.raises(ValueError, match="axes"):
        bertie.attention(q[0], q, v)
