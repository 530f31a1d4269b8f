"""What needs no derivative has SciPy's dtype and values; `output=` is written into; right angles are exact."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.ndimage

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.scipy import ndimage

IMAGE = np.arange(12.0).reshape(3, 4)
DTYPES = ["?", "b", "B", "h", "H", "i", "I", "l", "L", "f", "d"]
CALLS = {
    "affine_transform": ([[1.0, 0.1], [0.0, 1.0]],),
    "black_tophat": (3,),
    "convolve": ([[1, 2], [0, 1]],),
    "correlate1d": ([1, 2, 1],),
    "gaussian_filter": (1.0,),
    "gaussian_laplace": (1.0,),
    "grey_opening": ((2, 2),),
    "laplace": (),
    "maximum_filter": (2,),
    "median_filter": (3,),
    "minimum_filter1d": (2,),
    "percentile_filter": (40, 3),
    "rotate": (30,),
    "shift": (0.5,),
    "sobel": (),
    "uniform_filter": (2,),
    "zoom": (1.5,),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", DTYPES)
def test_a_result_has_the_dtype_and_the_values_of_scipy(name, kind):
    image = IMAGE.astype(kind)
    try:
        expected = getattr(scipy.ndimage, name)(image, *CALLS[name])
    except (TypeError, ValueError, RuntimeError):
        pytest.skip(f"SciPy does not take {image.dtype}")
    for given in (image, ag.tensor(image)):
        found = getattr(ndimage, name)(given, *CALLS[name])
        assert isinstance(found, ag.Tensor)
        assert found.dtype == expected.dtype
        assert np.array_equal(found.numpy(), expected)


def test_measurements_have_the_dtypes_of_scipy():
    image = np.array([[1, 2], [3, 4]], np.uint8)
    assert ndimage.minimum(image).dtype == np.uint8
    assert ndimage.minimum(image, np.array([[1, 1], [2, 2]]), [1, 2]).tolist() == [1.0, 3.0]
    assert ndimage.center_of_mass(IMAGE)[0].item() == scipy.ndimage.center_of_mass(IMAGE)[0]


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("into", [np.ndarray, ag.Tensor])
def test_output_is_written_into(needs_grad, into):
    memory = np.zeros((3, 4))
    output = memory if into is np.ndarray else ag.asarray(memory)
    image = ag.tensor(IMAGE, requires_grad=needs_grad)
    found = ndimage.gaussian_filter(image, 1.0, output=output)
    expected = scipy.ndimage.gaussian_filter(IMAGE, 1.0)
    np.testing.assert_allclose(memory, expected, rtol=1e-12)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12)
    assert found.requires_grad is needs_grad
    if into is ag.Tensor:
        assert found is output
        assert output._version > 0
    if needs_grad:
        sync.backward(found.sum())
        assert np.isclose(image.grad.numpy().sum(), 12.0)


def test_output_may_lie_in_the_memory_of_the_image():
    image = IMAGE.copy()
    ndimage.gaussian_filter(image, 1.0, output=image)
    np.testing.assert_allclose(image, scipy.ndimage.gaussian_filter(IMAGE, 1.0), rtol=1e-12)


def test_an_output_of_another_shape_is_refused_and_our_words_are_kept():
    for image in (IMAGE, ag.tensor(IMAGE, requires_grad=True)):
        with pytest.raises(RuntimeError, match="output shape not correct"):
            ndimage.gaussian_filter(image, 1.0, output=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=re.escape("order of 0 to 5, not 6")):
        ndimage.zoom(IMAGE, 2, order=6)


@pytest.mark.parametrize("angle", [0, 90, 180, 270, 360, -90])
@pytest.mark.parametrize("shape", [(3, 4), (5, 5), (1, 6)])
def test_an_image_turned_by_right_angles_keeps_each_element(angle, shape):
    image = np.random.default_rng(0).normal(size=shape)
    given = ag.tensor(image, requires_grad=True)
    found = ndimage.rotate(given, angle)
    np.testing.assert_allclose(found.detach().numpy(), scipy.ndimage.rotate(image, angle), atol=1e-12)
    sync.backward(found.sum())
    np.testing.assert_allclose(given.grad.numpy(), np.ones(shape), atol=1e-9)


def test_an_angle_still_has_a_gradient():
    angle = ag.tensor(20.0, requires_grad=True)
    smooth = scipy.ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(9, 9)), 2.0)
    assert sync.gradcheck(lambda a: ndimage.rotate(smooth, a, reshape=False, mode="nearest"), (angle,), atol=1e-4)


@pytest.mark.parametrize("name", ["convolve", "gaussian_filter", "laplace", "shift", "sobel"])
def test_an_output_of_another_kind_is_refused_as_scipy_does(name):
    arguments = CALLS.get(name, ())
    image = ag.tensor(IMAGE, requires_grad=True)
    with pytest.raises(RuntimeError, match="not supported"):
        getattr(ndimage, name)(image, *arguments, output=np.zeros((3, 4), complex))
    with pytest.raises(RuntimeError, match="complex dtype"):
        getattr(ndimage, name)(image * 1j, *arguments, output=np.zeros((3, 4)))
    if name in ("convolve", "shift"):
        assert getattr(ndimage, name)(image * 1j, *arguments, output=np.float32).dtype == np.complex64
    else:
        with pytest.raises(RuntimeError, match="complex dtype"):
            getattr(ndimage, name)(image * 1j, *arguments, output=np.float32)


def test_complex_weights_of_an_image_of_whole_numbers_have_a_gradient():
    weights = ag.tensor(np.array([[1.0 + 2.0j, 0.5j]]), requires_grad=True)
    assert sync.gradcheck(lambda w: ndimage.correlate(IMAGE.astype(int), w), (weights,))


def test_several_modes_are_of_filters_along_one_axis_after_another():
    image, modes = ag.tensor(IMAGE, requires_grad=True), ("reflect", "nearest")
    assert (
        ndimage.rank_filter(image, -1, 3, mode=modes).tolist() == ndimage.maximum_filter(image, 3, mode=modes).tolist()
    )
    for call in (
        lambda: ndimage.rank_filter(image, 1, 3, mode=modes),
        lambda: ndimage.median_filter(image, 3, mode=modes),
        lambda: ndimage.minimum_filter(image, footprint=np.eye(2), mode=modes),
    ):
        with pytest.raises(RuntimeError, match="one mode for all axes"):
            call()


def test_centers_of_a_matrix_of_labels_lie_as_scipys():
    labels, index = np.array([[1, 1, 2, 2]] * 3), np.array([[1, 2], [2, 1]])
    found = ndimage.center_of_mass(ag.tensor(IMAGE, requires_grad=True), labels, index)
    np.testing.assert_allclose(
        [[one.detach() for one in row] for row in found], scipy.ndimage.center_of_mass(IMAGE, labels, index)
    )


@pytest.mark.parametrize("name", ["morphological_gradient", "morphological_laplace", "white_tophat", "grey_closing"])
@pytest.mark.parametrize("needs_grad", [False, True])
def test_morphology_takes_every_output_that_scipy_does(name, needs_grad):
    theirs, mine = getattr(scipy.ndimage, name), getattr(ndimage, name)
    for output in (np.float32, float, np.zeros_like(IMAGE), np.zeros_like(IMAGE, np.float32)):
        expected, found = (one if isinstance(one, type) else one.copy() for one in (output, output))
        image = ag.tensor(IMAGE, requires_grad=needs_grad)
        expected = theirs(IMAGE, 3, output=expected) if isinstance(output, type) else _after(theirs, IMAGE, expected)
        found = (
            mine(image, 3, output=found).detach().numpy() if isinstance(output, type) else _after(mine, image, found)
        )

        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["generic_laplace", "generic_gradient_magnitude"])
def test_functions_of_users_make_whole_numbers_of_whole_numbers_and_are_written_into_an_output(name):
    def second(module):
        return lambda image, axis, output, mode, cval: module.gaussian_filter1d(image, 2, axis, 1, output, mode, cval)

    theirs, mine = getattr(scipy.ndimage, name), getattr(ndimage, name)
    whole = (IMAGE * 100).astype(np.int32)
    np.testing.assert_array_equal(mine(whole, second(ndimage)).numpy(), theirs(whole, second(scipy.ndimage)))
    assert mine(whole, second(ndimage)).dtype == np.int32

    output = np.zeros_like(IMAGE)
    found = mine(ag.tensor(IMAGE, requires_grad=True), second(ndimage), output=output)
    np.testing.assert_allclose(output, theirs(IMAGE, second(scipy.ndimage)))
    assert found.requires_grad


@pytest.mark.parametrize("name", ["convolve", "correlate", "convolve1d", "correlate1d"])
def test_a_complex_constant_beyond_a_real_image_is_refused(name):
    weights = ag.tensor(np.array([1.0, 1j]), requires_grad=True)
    with pytest.raises(ValueError, match="a complex cval for a complex image alone"):
        getattr(ndimage, name)(IMAGE[0], weights, mode="constant", cval=1j)


def _after(function, image, output):
    """Return what a function has written into `output`."""
    function(image, 3, output=output)
    return output


def test_an_affine_transform_may_have_another_count_of_axes():
    matrix = ag.tensor([[2.0], [1.0]], requires_grad=True)

    found = ndimage.affine_transform(IMAGE, matrix, 0.25, (2,), order=1)

    expected = scipy.ndimage.affine_transform(IMAGE, [[2.0], [1.0]], 0.25, (2,), order=1)
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-12)
    assert sync.gradcheck(lambda matrix: ndimage.affine_transform(IMAGE, matrix, 0.25, (2,), order=1), (matrix,))


def test_the_last_row_of_an_affine_matrix_is_checked():
    with pytest.raises(ValueError, match=r"with the last row \[0, 0, 1\], not \[1.0, 0.0, 1.0\]"):
        ndimage.affine_transform(ag.tensor(IMAGE), np.array([[1.0, 0, 0], [0, 1, 0], [1, 0, 1]]))


def test_the_shape_of_an_affine_output_is_that_of_the_result():
    image, matrix, out = ag.tensor(IMAGE, requires_grad=True), [[0.5, 0.0], [0.0, 0.5]], np.zeros((6, 8))
    found = ndimage.affine_transform(image, matrix, output=out)
    np.testing.assert_allclose(out, scipy.ndimage.affine_transform(IMAGE, matrix, output_shape=(6, 8)), atol=1e-12)
    assert found.requires_grad


@pytest.mark.parametrize("name", ["spline_filter", "spline_filter1d"])
def test_coefficients_of_a_complex_image_keep_its_imaginary_part(name):
    image = np.random.default_rng(3).normal(size=(3, 5)) + 1j
    leaf = ag.tensor(image, requires_grad=True)

    found = getattr(ndimage, name)(leaf)

    assert found.dtype == np.complex128
    expected = getattr(scipy.ndimage, name)(image, output=np.complex128)
    np.testing.assert_allclose(found.detach().numpy(), expected)


def test_labels_without_elements_are_taken_as_scipy_does():
    image, labels = np.arange(6.0).reshape(2, 3) + 1, np.array([[1, 1, 2], [0, 2, 2]])
    leaf = ag.tensor(image, requires_grad=True)

    assert ndimage.minimum(leaf, labels, [1, 8]).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="zero-size"):
        ndimage.maximum(leaf, labels, 8)
    with pytest.raises(TypeError, match="takes a real image"):
        ndimage.sum(leaf + 1j, labels, [1, 2])


def test_centers_of_several_labels_are_tuples():
    image, labels = np.arange(6.0).reshape(2, 3), np.array([[1, 1, 2], [0, 2, 2]])

    found = ndimage.center_of_mass(ag.tensor(image), labels, [1, 2])

    expected = scipy.ndimage.center_of_mass(image, labels, [1, 2])
    assert [tuple(part.item() for part in one) for one in found] == expected


def test_filters_by_rank_take_no_axes_and_no_complex_constant():
    leaf = ag.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)

    assert ndimage.grey_opening(leaf, 2, axes=()).tolist() == leaf.tolist()
    with pytest.raises(TypeError, match="cval must be a real number"):
        ndimage.minimum_filter(leaf, 2, mode="constant", cval=1j)


def test_summaries_with_a_history_are_complex_and_leave_nan_where_scipys_do():
    labels = np.array([[1, 1, 2], [2, 2, 1]])
    image = np.array([[1.0, np.nan, 3.0], [5.0, 4.0, 2.0]])

    leaf = ag.tensor(image, requires_grad=True)
    for name in ("minimum", "median"):
        for index in (1, [1, 2]):
            found = getattr(ndimage, name)(leaf, labels, index).detach().numpy()
            np.testing.assert_array_equal(found, getattr(scipy.ndimage, name)(image, labels, index))
    assert np.isnan(ndimage.median(leaf, labels, [1, 8])[1].item())
    assert ndimage.variance(ag.tensor([1.0, 2j], requires_grad=True)).dtype == complex


@pytest.mark.parametrize("mode", ["mirror", "reflect", "nearest", "grid-wrap"])
def test_halves_between_elements_are_rounded_as_scipys(mode):
    image, leaf = np.arange(25.0).reshape(5, 5), ag.tensor(np.arange(25.0).reshape(5, 5), requires_grad=True)

    for offset in (-2.5, -0.5, 0.5, 2.5):
        found = ndimage.affine_transform(leaf, np.eye(2), offset, order=0, mode=mode)
        np.testing.assert_array_equal(
            found.detach().numpy(), scipy.ndimage.affine_transform(image, np.eye(2), offset, order=0, mode=mode)
        )
