"""Configuration of the documentation site: ``make -C docs html`` builds it into docs/_build/html.

The pages of the API are generated from the lists of public names, so that a new public name has a page without further
work. Pages of docs/ that no table of contents names are added to the user guide.
"""

import importlib
import inspect
import re
import shutil
import types
import warnings
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref

import flipproof
import flipproof_verify

DOCS = Path(__file__).parent
ROOT = DOCS.parent

project = "flipproof"
author = "The flipproof developers"
copyright = author
version = release = flipproof.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]  # the gallery's order is an object that cannot be pickled

toc_object_entries_show_parents = "hide"  # the contents of a page about a class name its methods alone
nitpicky = True
# Names of other projects have no page here. Their inventories (intersphinx) would be downloaded at every build, and the
# site is built without a network; so each of their packages is listed, and any other unknown name fails the build.
OTHER_PROJECTS = ("collections", "dask", "numpy", "pandas", "pathlib", "pyarrow", "scipy", "sklearn", "torch", "typing")
nitpick_ignore_regex = [("py:.*", rf"({'|'.join(OTHER_PROJECTS)})(\..*)?")]

autodoc_typehints = "none"  # the docstrings name types and shapes
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "flipproof"
html_static_path = ["_static"]
html_css_files = ["flipproof.css"]
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {page: [] for page in ("index", "install", "getting-started", "theory")}  # these have no pages below
html_sidebars["gallery/*"] = ["sidebar-nav-bs"]


def _reset_matplotlib(_conf, _name):
    """Draw every figure at one size, and let warnings of an example fail the build."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"figure.figsize": (7, 4), "figure.constrained_layout.use": True, "savefig.dpi": 110})
    warnings.simplefilter("error", UserWarning)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "api/examples",
    "doc_module": ("flipproof", "flipproof_verify"),
    "reference_url": {"flipproof": None, "flipproof_verify": None},
    "reset_modules": ("matplotlib", _reset_matplotlib),
    "abort_on_example_error": True,
    "capture_repr": (),  # scripts print what they show
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "matplotlib_animations": False,
    "copyfile_regex": r".*\.(csv|txt|jsonl)",
}

# -- API reference ---------------------------------------------------------------------------------------------------

#: Sections of the reference: everything that is importable from flipproof itself comes first.
SECTIONS = {"flipproof": list(flipproof.PUBLIC_NAMES)}
for _room in flipproof.PUBLIC_SUBPACKAGES:
    _module = importlib.import_module(f"flipproof.{_room}")
    _own = [name for name in getattr(_module, "__all__", ()) if name not in flipproof.PUBLIC_NAMES]
    if _own:
        SECTIONS[f"flipproof.{_room}"] = _own
SECTIONS["flipproof_verify"] = [name for name in flipproof_verify.__all__ if not name.isupper()]

#: Headings of the first section, by the kind of thing; the first predicate that holds decides.
KINDS = {
    "Classifiers": lambda name, thing: name.startswith("Certified") and name.endswith("Classifier"),
    "Regressors": lambda name, thing: name.endswith("Regressor"),
    "Any other classifier": lambda name, thing: name == "SmoothedClassifier",
    "Rows that do not fit in memory": lambda name, thing: name.startswith("Streaming"),
    "Your own learner": lambda name, thing: name == "LabelLinearClassifier",
    "Displays": lambda name, thing: name.endswith("Display"),
    "Noise": lambda name, thing: name in {"FeatureNoise", "JointNoise", "LabelFlip"},
    "Functions": lambda name, thing: not inspect.isclass(thing),
    "Adversaries, certificates and results": lambda name, thing: True,
}


#: What users call, of the methods of learners. How a learner defines itself is described at LabelLinearClassifier.
USER_METHODS = {
    *("fit", "partial_fit", "forget", "predict", "predict_proba", "decision_function", "score", "vote_weights"),
    *("certify", "certify_means", "certify_gaps", "certify_coefficients", "worst_changes", "random_error_bound"),
    *("report", "coef_", "n_neighbors_", "regularization_"),
}
HOOKS = {"fit_without_labels", "label_free_weights", "label_free_votes", "weight_of_row"}

#: Methods that other parts of flipproof call, such as reports; users have `to_frame`, `summary` and `str`.
FOR_OTHER_PARTS = {
    *("facts", "columns", "table", "lines", "headline", "notes", "what", "answer", "labels_name"),
    *(
        "evidence",
        "id_at",
        "fragile_order",
        "strategy",
        "chain",
        "other_form",
        "page",
        "rests_on",
        "known_classes",
        "proof_columns",
    ),
}


def _methods(thing):
    """Return the public methods and properties that flipproof defines and users call, and `score`."""
    is_learner = hasattr(thing, "fit") and hasattr(thing, "certify")
    users = USER_METHODS | (HOOKS if thing is flipproof.LabelLinearClassifier else set())
    shown = []
    for name in dir(thing):
        home = next((one for one in thing.__mro__ if name in one.__dict__), None)
        # `score` is what scikit-learn defines for all classifiers and regressors
        ours = home is not None and (home.__module__.startswith("flipproof") or name == "score")
        routes_metadata = name.startswith("set_") and name.endswith("_request")  # scikit-learn's, made for each class
        if name.startswith("_") or not ours or routes_metadata:
            continue
        member = getattr(thing, name, None)  # None: inherited, but refused by this class
        if not (callable(member) or isinstance(inspect.getattr_static(thing, name), property)):
            continue
        for_users = name in users if is_learner else name not in FOR_OTHER_PARTS
        if for_users and inspect.getdoc(member):
            shown.append(name)
    return shown


def _page(module, name, lowered):
    """Write the page of one public name and return the page's name."""
    thing = getattr(importlib.import_module(module), name)
    full = f"{module}.{name}"
    page = full
    while page.lower() in lowered:  # `audit` and `Audit` must not share a file where case does not matter
        page += "-"
    lowered.add(page.lower())
    lines = [name, "=" * len(name), "", f".. currentmodule:: {module}", ""]
    if inspect.isclass(thing):
        lines += [f".. autoclass:: {name}"]
        methods = _methods(thing) if not issubclass(thing, BaseException) else []
        for method in methods:
            is_property = isinstance(inspect.getattr_static(thing, method), property)
            if method == "score":  # its docstring is scikit-learn's, with references into that project's site
                described = (inspect.getdoc(thing.score) or "").split("\n")[0].replace(":ref:", "")
                lines += ["", f"   .. py:method:: score{inspect.signature(thing.score)}".replace("(self, ", "(")]
                lines += ["", "      " + re.sub(r"`([^<`]*) <[^>]*>`", r"*\1*", described)]
            else:
                lines += ["", f"   .. {'autoproperty' if is_property else 'automethod'}:: {method}"]
    else:
        lines += [f".. autofunction:: {name}"]
    lines += ["", f".. minigallery:: {full}", "   :add-heading: Examples in the gallery", ""]
    _write(DOCS / "api" / f"{page}.rst", "\n".join(lines))
    return page, thing


def _mathematics():
    """Write the page of flipproof.core, whose modules are lists of functions without `__all__`."""
    core = importlib.import_module("flipproof.core")
    lines = ["flipproof.core", "==============", "", inspect.getdoc(core), ""]
    for module in sorted(one.stem for one in Path(core.__file__).parent.glob("[a-z]*.py")):
        full = f"flipproof.core.{module}"
        # names of types, such as arrays of integers, have no signature that autodoc could format
        names = vars(importlib.import_module(full)).items()
        aliases = sorted(name for name, thing in names if isinstance(thing, types.GenericAlias))
        lines += [
            full,
            "-" * len(full),
            "",
            f".. automodule:: {full}",
            "   :members:",
            f"   :exclude-members: {', '.join(aliases)}",
            "",
        ]
    _write(DOCS / "api" / "flipproof.core.rst", "\n".join(lines))
    index = ["flipproof.core", "--------------", "", inspect.getdoc(core), ""]
    return [
        *index,
        "* :doc:`Its functions <flipproof.core>`",
        "",
        ".. toctree::",
        "   :hidden:",
        "",
        "   flipproof.core",
        "",
    ]


def _write(path, text):
    """Write a file unless it has this text, so that Sphinx reads only what has changed."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _summary(thing):
    return re.sub(r":\w+:`~?([^`]*)`", r"\1", (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " "))


def _reference():
    """Write docs/api: an index with a table per section, and a page for each public name."""
    lowered = set()
    index = ["API reference", "=============", "", "Every public name, generated from the code.", ""]
    for module, names in SECTIONS.items():
        index += [module, "-" * len(module), ""]
        if module != "flipproof":
            index += [(inspect.getdoc(importlib.import_module(module)) or "").split("\n\n")[0], ""]
        groups = {}
        for name in names:
            page, thing = _page(module, name, lowered)
            kind = next(k for k, holds in KINDS.items() if holds(name, thing)) if module == "flipproof" else ""
            groups.setdefault(kind, []).append((name, page, _summary(thing)))
        for kind in [one for one in ["", *KINDS] if one in groups]:
            index += [kind, "~" * len(kind), ""] if kind else []
            index += [".. list-table::", "   :widths: 40 60", "   :class: names", ""]
            for name, page, summary in groups[kind]:
                index += [f"   * - :doc:`{name} <{page}>`", f"     - {summary}"]
            index += ["", ".. toctree::", "   :hidden:", "", *[f"   {n} <{p}>" for n, p, _ in groups[kind]], ""]
    index += _mathematics()
    _write(DOCS / "api" / "index.rst", "\n".join(index))
    wanted = lowered | {"index", "flipproof.core"}
    for stale in (DOCS / "api").glob("*.rst"):
        if stale.stem.lower() not in wanted:
            stale.unlink()


# -- pages outside of docs/ ------------------------------------------------------------------------------------------


def _other_pages():
    """Copy the tables and figures of reproduction/ and the pages of the root, to which pages of docs/ link."""
    target = DOCS / "project"
    for path in sorted((ROOT / "reproduction").rglob("*")):
        if path.suffix in {".md", ".png"} and path.name != "README.md":  # which is for readers of the folder
            copy = target / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT"):
        text = (ROOT / f"{name}.md").read_text().replace("](docs/", "](../")
        _write(target / f"{name}.md", text)


def _remove_stale_gallery():
    """Remove pages of examples that have another name now, which no list of contents would name."""
    for page in (DOCS / "gallery").glob("[0-9]*.rst"):
        if not (ROOT / "examples" / f"{page.stem}.py").exists():
            for file in (DOCS / "gallery").glob(f"{page.stem}*"):
                file.unlink()


def _make_pages(app):
    _reference()
    _other_pages()
    _remove_stale_gallery()


def _links_within_the_site(app, name, source):
    """Let links that work in a clone work on the site, and put pages that nobody lists into the guide."""
    text = source[0].replace("](../reproduction)", "](project/reproduction/claims.md)")
    text = text.replace("](../examples)", "](gallery/index)")
    text = re.sub(r"\]\(\.\./reproduction/", "](project/reproduction/", text)
    text = re.sub(r"\]\(\.\./((?:[A-Z_]+)\.md)\)", r"](project/\1)", text)
    if "<!-- other pages -->" in text:
        lists = [DOCS / "index.md", *DOCS.glob("*/index.md"), DOCS / "guide.md", DOCS / "about.md"]
        listed = {line.strip(" <>").split("<")[-1] for page in lists for line in page.read_text().splitlines()}
        names = [page.stem for page in sorted(DOCS.glob("*.md")) if page.stem not in listed | {"index"}]
        lines = "\n".join(names)
        text = text.replace("<!-- other pages -->", f"```{{toctree}}\n:caption: More\n\n{lines}\n```" if names else "")
    source[0] = text


def _link_public_names(app, doctree):
    """Make a literal that is exactly a public name a link to its page."""
    known = {name: f"flipproof.{name}" for name in flipproof.PUBLIC_NAMES}
    known |= {f"flipproof.{name}": f"flipproof.{name}" for name in flipproof.PUBLIC_NAMES}
    for room, names in SECTIONS.items():
        known |= {f"{room}.{name}": f"{room}.{name}" for name in names}
        known |= {name: f"{room}.{name}" for name in names if name not in flipproof.PUBLIC_NAMES}
    # `certify` alone may be a method, and `load` anything
    known = {name: target for name, target in known.items() if not (name.islower() and name.isalpha())}
    for literal in list(doctree.findall(nodes.literal)):
        target = known.get(literal.astext())
        if target is None or isinstance(literal.parent, nodes.reference | pending_xref):
            continue
        link = pending_xref(
            "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=False, refdoc=app.env.docname
        )
        literal.replace_self(link)
        link += literal


def _wrap_sentences(app, doctree):
    """Let output that is a sentence wrap; tables keep their columns, and scroll."""
    for block in doctree.findall(nodes.literal_block):
        lines = block.astext().splitlines() if block.get("language") in ("text", "none") else []
        if any(len(line) > 100 for line in lines) and not any("  " in line for line in lines):
            block["classes"].append("sentences")


#: A page of the documentation in a docstring, which is text for readers of the code.
PAGE = re.compile(r"``?docs/([\w-]+(?:/[\w-]+)?)\.md``?|\bdocs/([\w-]+(?:/[\w-]+)?)\.md\b")


def _link_pages(app, what, name, thing, options, lines):
    """Let docstrings that name a file of docs/ link to its page."""
    for number, line in enumerate(lines):
        line = PAGE.sub(lambda found: f":doc:`/{found[1] or found[2]}`", line)
        if name.startswith("flipproof.core") and not line.startswith("    "):
            # |k| is an absolute value, no substitution; literals and indented formulas are left as they are
            line = re.sub(r"(``.*?``|`[^`]*`)|\|", lambda found: found[1] or r"\|", line)
        lines[number] = line


def setup(app):
    app.connect("builder-inited", _make_pages)
    app.connect("autodoc-process-docstring", _link_pages)
    app.connect("doctree-read", _wrap_sentences)
    app.connect("source-read", _links_within_the_site)
    app.connect("doctree-read", _link_public_names)
