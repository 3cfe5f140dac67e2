"""The API reference describes the methods that users call."""

import importlib
import importlib.util
import inspect
import re

import pytest
from documentation.pages import ROOT

import flipproof

pytestmark = pytest.mark.deep("sphinx")

#: Methods that the page of a class must describe.
UPDATES = "fit partial_fit forget predict score certify random_error_bound"
METHODS = {
    "CertifiedRidgeClassifier": f"{UPDATES} decision_function vote_weights report",
    "CertifiedPartitionClassifier": "fit partial_fit forget predict score certify",
    "SmoothedClassifier": "fit predict score certify",
    "CertifiedRidgeRegressor": "fit predict score certify",
    "LabelLinearClassifier": "fit_without_labels label_free_weights",
    "Certificates": "to_frame to_arrow most_fragile explain save load",
    "Audit": "to_frame explain save",
    "CertifiedAccuracyDisplay": "from_certificates",
}


#: Their examples need PyTorch, UMAP or pretrained weights, and are not run.
NEED_EXTRAS = {"CNNFeatures", "ImageEncoder", "SentenceEncoder", "SimCLRFeatures", "UMAPFeatures"}


@pytest.fixture(scope="module")
def conf():
    spec = importlib.util.spec_from_file_location("conf", ROOT / "docs" / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", METHODS)
def test_the_page_of_a_class_has_its_methods(name, conf):
    assert set(METHODS[name].split()) <= set(conf._methods(getattr(flipproof, name)))


@pytest.mark.parametrize("name", [one for one in flipproof.PUBLIC_NAMES if one.startswith("Certified")])
def test_every_certified_class_describes_how_it_is_scored(name, conf):
    thing = getattr(flipproof, name)
    if name.endswith(("Classifier", "Regressor")):
        assert {"fit", "predict", "certify", "score"} <= set(conf._methods(thing))


def test_every_public_class_has_a_list_of_methods(conf):
    for room, names in conf.SECTIONS.items():
        for name in names:
            thing = getattr(importlib.import_module(room), name)
            if isinstance(thing, type):
                conf._methods(thing)


def _examples(*things):
    """Return the code of the examples in docstrings, without those that are not run."""
    lines = [line for thing in things for line in (inspect.getdoc(thing) or "").splitlines()]
    return "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")) and "+SKIP" not in line)


def test_every_method_of_a_page_is_used_in_an_example_there(conf):
    classes = {
        name: thing
        for room, names in conf.SECTIONS.items()
        for name in names
        if isinstance(thing := getattr(importlib.import_module(room), name), type) and name not in NEED_EXTRAS
    }
    assert len(classes) > 60
    missing = []
    for name, thing in classes.items():
        if issubclass(thing, BaseException):
            continue
        methods = [one for one in conf._methods(thing) if one != "score" and callable(getattr(thing, one))]
        code = _examples(thing, *(getattr(thing, one) for one in methods))
        missing += [f"{name}.{one}" for one in methods if not re.search(rf"(\.|def ){one}\(", code)]
    remedy = "write an example, or list it in FOR_OTHER_PARTS of docs/conf.py if users do not call it"
    assert missing == [], remedy


def test_methods_of_a_page_describe_parameters_and_what_they_return(conf):
    from numpydoc.validate import validate

    found = set()
    for room, names in conf.SECTIONS.items():
        for name in names:
            thing = getattr(importlib.import_module(room), name)
            if not isinstance(thing, type) or issubclass(thing, BaseException):
                continue
            methods = [one for one in conf._methods(thing) if one != "score" and callable(getattr(thing, one))]
            for method in methods:
                errors = validate(f"{room}.{name}.{method}")["errors"]
                found |= {f"{name}.{method}: {message}" for code, message in errors if code in {"PR01", "RT01"}}
    # such arguments are refused by name, with the reason
    assert [one for one in sorted(found) if "{'**unsupported'}" not in one] == []
