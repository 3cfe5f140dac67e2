flipproof certify --train "$OUT/rows" --test "$OUT/test.parquet" --label label -o "$OUT/certificates.parquet"
