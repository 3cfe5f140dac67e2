"""Short names of learners, for the command line and `flipproof.audit`: a learner is called like its module."""

from flipproof import PUBLIC_NAMES

#: Learners that need more than a table of rows and labels: rows without labels.
NEED_MORE = ("propagation",)

#: The public class of each learner.
LEARNERS = {
    home.removeprefix("learners."): name
    for name, home in PUBLIC_NAMES.items()
    if name.startswith("Certified")
    and name.endswith("Classifier")
    and home.startswith("learners.")
    and not home.endswith(NEED_MORE)
}

#: The same for training rows in blocks.
LEARNERS_IN_BLOCKS = {"ridge": "StreamingRidgeClassifier", "kernel": "StreamingKernelClassifier"}

#: Learners whose attacks are known exactly.
LABEL_LINEAR = tuple(name for name in LEARNERS if name != "partition")

#: Regressors: a regressor is called like the classifier with its geometry.
REGRESSORS = {
    "ridge": "CertifiedRidgeRegressor",
    "neighbors": "CertifiedNeighborsRegressor",
    "kernel": "CertifiedKernelRegressor",
    "forest": "CertifiedForestRegressor",
}

#: The same for training rows in blocks.
REGRESSORS_IN_BLOCKS = {"ridge": "StreamingRidgeRegressor"}
