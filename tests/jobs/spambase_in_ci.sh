flipproof certify --train spambase/spambase.data.gz --no-header --label f57 --holdout 0.25 \
    --min-certified-accuracy 0.8@20 --min-certified-recall 0.7@20 --proof "$OUT/spambase.flipproof"
flipproof verify "$OUT/spambase.flipproof"
