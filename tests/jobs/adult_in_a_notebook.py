import pandas as pd

import flipproof

train = pd.read_csv("adult/adult.data.gz", skipinitialspace=True)
test = pd.read_csv("adult/adult.test.gz", skipinitialspace=True)
result = flipproof.audit(train, test, label="classification", attack=False)
print(result)
print(result.to_frame().sort_values("radius").head())
print(result.explain(columns=["age", "education", "occupation"]))
