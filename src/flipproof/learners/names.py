"""Short names of learners, for the command line and `flipproof.audit`."""

#: The public class of each learner.
LEARNERS = {
    "ridge": "CertifiedRidgeClassifier",
    "neighbors": "CertifiedNeighborsClassifier",
    "kernel": "CertifiedKernelClassifier",
    "cluster": "CertifiedClusterClassifier",
    "forest": "CertifiedForestClassifier",
    "partition": "CertifiedPartitionClassifier",
}

#: The same for training rows in blocks.
LEARNERS_IN_BLOCKS = {"ridge": "StreamingRidgeClassifier", "kernel": "StreamingKernelClassifier"}

#: Learners whose attacks are known exactly.
LABEL_LINEAR = tuple(name for name in LEARNERS if name != "partition")
