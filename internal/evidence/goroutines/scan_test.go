package goroutines

import "regexp"

// headerLine finds the headers of a text in another way than the parser does.
var headerLine = regexp.MustCompile(`(?m)^goroutine [0-9]{1,19} (?:gp=[^\[\n]* )?\[[^\n]*[\]}]:\r?$`)
