#!/bin/sh
# The tests of slug.sh: sh test.sh
. ./slug.sh
failed=0

check() {
	got=$(slug "$1")
	if [ "$got" != "$2" ]; then
		echo "FAIL slug.sh:8: slug \"$1\" is \"$got\", want \"$2\""
		failed=1
	fi
}

check "Hello World" "hello-world"
check "Fall seven times, stand up eight!" "fall-seven-times-stand-up-eight"
check "  a -- b  " "a-b"
check "2026" "2026"

[ $failed = 0 ] && echo "PASS: 4 tests"
exit $failed
