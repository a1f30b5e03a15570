// Package report explains the folder of a run, or of a comparison of runs, to
// a reader. It says first whether the figures may be believed at all.
//
// A report is a pure function of the files in the folder: the same files give the
// same bytes, and nothing is measured, fetched or asked anew. It is made in two
// steps: run.go, matrix.go and comparison.go turn results into a document (headings,
// sentences, tables), and markdown.go writes a document as Markdown, so that another
// format needs another writer and no second reading of the results.
//
// The package refuses to judge: validity, verdicts and predictions are those of
// summary.json, and what differs between profiles is decided by package stats.
// Of the cells of a matrix it says which defence they speak for, by comparing and
// counting them alone. It never hides a figure because a run is invalid, and never fills
// in a missing one: a file that is absent is said to be absent.
package report
