flipproof certify --train sms_spam/SMSSpamCollection.gz --names kind,text --no-quotes --label kind \
    --text text --holdout 0.25 --title "SMS spam filter" --show text --report "$OUT/sms.html"
