flipproof fit --train enron_spam/enron_farmer_gp.jsonl.xz --label label --text text --id file \
    --model "$OUT/enron.flipproof"
xz -dc enron_spam/enron_farmer_gp.jsonl.xz | head -200 > "$OUT/tomorrow.jsonl"
flipproof certify --model "$OUT/enron.flipproof" --test "$OUT/tomorrow.jsonl" -o "$OUT/enron.parquet"
