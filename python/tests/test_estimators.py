"""scikit-learn's conventions."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402
from sklearn.utils.validation import check_is_fitted, validate_data  # noqa: E402

from bertie import BertClassifier, BertRegressor, BertTagger, BertVectors  # noqa: E402

GOOD = ["a fine film", "what a lovely story", "great fun", "i loved it", "wonderful acting", "a joy"]
BAD = ["a dull film", "what a boring story", "no fun at all", "i hated it", "terrible acting", "a bore"]
X = GOOD * 3 + BAD * 3
Y = [1] * 18 + [0] * 18
QUICK = {"steps": 40, "batch": 8, "rate": 3e-4, "threads": 1}


@pytest.fixture(scope="module")
def classifier():
    return BertClassifier(**QUICK).fit(X, Y)


def test_a_classifier_learns_and_predicts(classifier):
    assert classifier.classes_.tolist() == [0, 1] and classifier.score(X, Y) > 0.9
    proba = classifier.predict_proba(np.array(X, dtype=object))
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)
    np.testing.assert_array_equal(classifier.classes_[proba.argmax(1)], classifier.predict(X))


def test_the_same_seed_learns_the_same(classifier):
    again = BertClassifier(**QUICK).fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))


def test_what_was_learned_survives_pickling(classifier, tmp_path):
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))
    import bertie

    again.save(tmp_path / "model")
    assert len(bertie.load(tmp_path / "model").classify(X)) == len(X)


def test_labels_may_be_anything_that_sorts():
    for labels in (["b", "a"], [True, False], [10, -3]):
        y = [labels[0]] * 18 + [labels[1]] * 18
        made = BertClassifier(**{**QUICK, "steps": 2}).fit(X, y)
        assert made.classes_.tolist() == sorted(labels)
        assert set(made.predict(X[:2])) <= set(labels)


def test_texts_come_as_lists_arrays_columns_and_pairs():
    pandas = pytest.importorskip("pandas")
    quick = {**QUICK, "steps": 2}
    expected = BertClassifier(**quick).fit(X, Y).predict_proba(X)
    for texts in (np.array(X), pandas.Series(X), pandas.DataFrame({"text": X}), np.array(X)[:, None]):
        np.testing.assert_array_equal(BertClassifier(**quick).fit(texts, Y).predict_proba(texts), expected)
    pairs = [(x, x) for x in X]
    assert BertClassifier(**quick).fit(pairs, Y).predict(pairs).shape == (36,)


def test_parameters_are_scikit_learns(classifier):
    params = classifier.get_params()
    assert params["steps"] == 40 and params["model"] is None
    copy = clone(classifier).set_params(rate=1e-5)
    assert copy.rate == 1e-5 and not hasattr(copy, "classes_")
    assert repr(BertClassifier(steps=3)) == "BertClassifier(steps=3)"


def test_grids_and_pipelines():
    search = GridSearchCV(BertClassifier(**{**QUICK, "steps": 2}), {"rate": [1e-5, 1e-4]}, cv=2).fit(X, Y)
    assert set(search.best_params_) == {"rate"} and search.predict(X).shape == (36,)
    pipeline = make_pipeline(BertVectors(), LogisticRegression(max_iter=1000))
    assert cross_val_score(pipeline, X, Y, cv=3).mean() > 0.5
    pipeline.fit(X, Y)
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.predict(X), pipeline.predict(X))


def test_vectors_are_those_of_load(box):
    vectors = BertVectors().fit(X)
    np.testing.assert_array_equal(vectors.transform(X), box.embed(X))
    assert len(vectors.get_feature_names_out()) == box.dimension
    vectors.set_output(transform="default")


def test_a_regressor_learns_numbers_of_any_size():
    y = np.where(np.array(Y) == 1, 5000.0, 1000.0)
    made = BertRegressor(**{**QUICK, "steps": 60}).fit(X, y)
    predicted = made.predict(X)
    assert predicted[:18].mean() > predicted[18:].mean() + 1000 and made.score(X, y) > 0


def test_a_tagger_gives_a_tag_for_each_word():
    words = [["anna", "lives", "in", "paris"], ["bob", "went", "to", "rome"], ["carl", "saw", "berlin"]] * 6
    tags = [["B-PER", "O", "O", "B-LOC"], ["B-PER", "O", "O", "B-LOC"], ["B-PER", "O", "B-LOC"]] * 6
    made = BertTagger(**{**QUICK, "steps": 60}).fit(words, tags)
    assert [len(t) for t in made.predict(words)] == [len(w) for w in words]
    assert made.score(words, tags) > 0.9
    assert pickle.loads(pickle.dumps(made)).predict(words) == made.predict(words)
    with pytest.raises(ValueError, match="every word"):
        made.fit([["a", "b"]], [["O"]])


def test_mistakes_in_the_input_are_value_errors(classifier):
    with pytest.raises(ValueError, match="one class"):
        BertClassifier().fit(["a", "b"], [1, 1])
    with pytest.raises(ValueError, match="inconsistent"):
        BertClassifier().fit(["a", "b"], [1])
    with pytest.raises(ValueError, match="one text"):
        BertClassifier().fit("a", [1])
    with pytest.raises(ValueError, match="not a text"):
        classifier.predict([3.0])
    with pytest.raises(ValueError, match="0 sample"):
        classifier.predict([])


# scikit-learn's own checks fit matrices of numbers. Of estimators of texts they leave nearly all out, so they are run on
# these too, which write each row of numbers as a text.


def as_texts(matrix):
    return [" ".join(f"{number:.1f}" for number in row) for row in matrix]


class OfNumbers:
    def fit(self, X, y=None):
        given = validate_data(self, X) if y is None and isinstance(self, BertVectors) else validate_data(self, X, y)
        width = self.n_features_in_
        if isinstance(given, tuple):
            super().fit(as_texts(given[0]), given[1])
        else:
            super().fit(as_texts(given))
        self.n_features_in_ = width
        return self

    def _texts(self, X):
        check_is_fitted(self)
        return as_texts(validate_data(self, X, reset=False))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        tags.no_validation = False
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind:
                kind.poor_score = True  # one step is no learning
        return tags


class ClassifierOfNumbers(OfNumbers, BertClassifier):
    def predict_proba(self, X):
        return super().predict_proba(self._texts(X))


class RegressorOfNumbers(OfNumbers, BertRegressor):
    def predict(self, X):
        return super().predict(self._texts(X))


class VectorsOfNumbers(OfNumbers, BertVectors):
    def transform(self, X):
        return super().transform(self._texts(X))


ONE_STEP = {"steps": 1, "batch": 4, "max_length": 8, "threads": 1}


@pytest.mark.parametrize(
    ("estimator", "checks"),
    [
        (BertClassifier(), 1),
        (BertRegressor(), 1),
        (BertTagger(), 1),
        (BertVectors(), 1),
        (ClassifierOfNumbers(**ONE_STEP), 50),
        (RegressorOfNumbers(**ONE_STEP), 45),
        (VectorsOfNumbers(), 40),
    ],
    ids=lambda x: type(x).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator, checks):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert not {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert sum(r["status"] == "passed" for r in results) >= checks
