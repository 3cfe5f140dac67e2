"""All public names, for type checkers and for `__init__.py`, which reads this file to import names on first use."""

from . import attacks as attacks
from . import checks as checks
from . import core as core
from . import datasets as datasets
from . import experiments as experiments
from . import features as features
from . import smoothing as smoothing
from . import store as store
from . import streaming as streaming
from . import tables as tables
from .adversary import Adversary as Adversary
from .annotations import Annotations as Annotations
from .assumptions import Assumption as Assumption
from .attacks.explaining import Explanation as Explanation
from .attacks.explaining import explain as explain
from .auditing.attack_search import find_attacks as find_attacks
from .auditing.audit_result import Audit as Audit
from .auditing.check_plan import plan_checks as plan_checks
from .auditing.classes import audit as audit
from .auditing.comparison import Comparison as Comparison
from .auditing.comparison import compare as compare
from .auditing.found_attacks import FoundAttacks as FoundAttacks
from .auditing.learner_comparison import compare_learners as compare_learners
from .auditing.numbers import NumberAudit as NumberAudit
from .auditing.numbers import audit_numbers as audit_numbers
from .certificates import Certificate as Certificate
from .certificates import Certificates as Certificates
from .core.noise import FeatureNoise as FeatureNoise
from .core.noise import JointNoise as JointNoise
from .core.noise import LabelFlip as LabelFlip
from .displays.curves import AttackDisplay as AttackDisplay
from .displays.curves import CertifiedAccuracyDisplay as CertifiedAccuracyDisplay
from .displays.interval_display import CertifiedIntervalDisplay as CertifiedIntervalDisplay
from .displays.notebook import notebook_view as notebook_view
from .displays.radius_histogram import RadiusHistogramDisplay as RadiusHistogramDisplay
from .intervals import CertifiedIntervals as CertifiedIntervals
from .intervals import WorstChanges as WorstChanges
from .learners.base import LabelLinearClassifier as LabelLinearClassifier
from .learners.cluster import CertifiedClusterClassifier as CertifiedClusterClassifier
from .learners.collective_certificates import collective_certify as collective_certify
from .learners.forest import CertifiedForestClassifier as CertifiedForestClassifier
from .learners.kernel import CertifiedKernelClassifier as CertifiedKernelClassifier
from .learners.neighbors import CertifiedNeighborsClassifier as CertifiedNeighborsClassifier
from .learners.neighbors_regressor import CertifiedNeighborsRegressor as CertifiedNeighborsRegressor
from .learners.partition import CertifiedPartitionClassifier as CertifiedPartitionClassifier
from .learners.pipeline import certify as certify
from .learners.propagation import CertifiedPropagationClassifier as CertifiedPropagationClassifier
from .learners.regressors import CertifiedForestRegressor as CertifiedForestRegressor
from .learners.regressors import CertifiedKernelRegressor as CertifiedKernelRegressor
from .learners.regressors import CertifiedRidgeRegressor as CertifiedRidgeRegressor
from .learners.ridge import CertifiedRidgeClassifier as CertifiedRidgeClassifier
from .learners.ridge import LabelDependenceWarning as LabelDependenceWarning
from .learners.selection import select_on_trusted as select_on_trusted
from .learners.table_model import TableModel as TableModel
from .metrics import certified_accuracy as certified_accuracy
from .metrics import certified_recall as certified_recall
from .report.model_report import Report as Report
from .smoothing import SmoothedClassifier as SmoothedClassifier
from .store.model_files import load as load
from .store.model_files import save as save
from .store.proofs import load_certificates as load_certificates
from .store.proofs import save_certificates as save_certificates
from .streaming import StreamingKernelClassifier as StreamingKernelClassifier
from .streaming import StreamingRidgeClassifier as StreamingRidgeClassifier
from .streaming import StreamingRidgeRegressor as StreamingRidgeRegressor

__version__: str

#: The module of each public name.
PUBLIC_NAMES: dict[str, str]

#: Public subpackages, reachable as attributes: ``flipproof.attacks.worst_flips``.
PUBLIC_SUBPACKAGES: tuple[str, ...]
