#!/bin/sh
# slug turns a title into the last part of an address: small letters and
# digits, words joined by one dash.

slug() {
	printf '%s' "$1" |
		tr 'A-Z' 'a-z' |
		tr -c 'a-z0-9' '-' |
		sed -e 's/^-*//' -e 's/-*$//'
}
